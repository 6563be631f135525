"""The log's front: Apache Kafka, behind one small interface that two client libraries implement.

`address` names a topic, `client` is the interface, `python_client` and `fast_client` implement it,
`testing` is the contract both pass, `topic` creates topics and says what is wrong with them.

`log` is the log whose events go that way: `outgoing` lets a batch through the door, `producer` sends it, `flights`
are the batches on their way, `watch` and `fates` tell what the persister made of them.
"""
