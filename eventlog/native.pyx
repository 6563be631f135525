# cython: language_level=3, boundscheck=False, wraparound=False, binding=True
"""Inner loops, compiled: the persister's, a batch of Kafka's into records and records into rows, and the
import's, an episode's events into rows.

Of records only what our own writers send is taken here: the envelope in the order, the spelling and the
ASCII of `core.codec.encode`, and nothing wrong with it. Everything else is left to
`eventlog.persister.decode`, `eventlog.kafka.lean` and `eventlog.pack`, which make the same of it, more
slowly; so whatever is refused, is refused there. Nothing depends on this module: where it was not
compiled, they do it all.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from hashlib import sha256
from zlib import crc32

import msgspec

from core.digest import EVENT_LABEL
from core.errors import BadEvent
from core.event import MAX_BODY_BYTES, MAX_DEPTH, MAX_TIME, MIN_TIME, body_of
from core.times import IN_2000, second_of
from eventlog.kafka.client import Record
from eventlog.pack import kind_of, thread_of

cdef bytes BEGIN = EVENT_LABEL + b"\x01\0\0\0\x10"
cdef int64_t SINCE = IN_2000
cdef int64_t FIRST_TIME = MIN_TIME, LAST_TIME = MAX_TIME
cdef Py_ssize_t LONGEST = MAX_BODY_BYTES
cdef Py_ssize_t DEEPEST = MAX_DEPTH
cdef int REMEMBERED = 4_096
cdef int MOST_DIGITS = 300
cdef uint32_t NULL_COLUMN = 0xFFFFFFFF
cdef uint64_t HIGH_BITS = 0x8080808080808080
cdef object skip = msgspec.json.Decoder(msgspec.defstruct("_Skipped", [])).decode
cdef tuple REFUSED = (BadEvent, msgspec.DecodeError, UnicodeDecodeError, RecursionError)


cdef struct Fields:
    # Where an envelope's parts begin and end, and its numbers. Texts of `thread` and `kind` are shared by many.
    char event_id[16]
    char run[16]
    char causation_id[16]
    const char* thread
    const char* thread_end
    const char* kind
    const char* kind_end
    const char* moment  # occurred_at, or NULL
    const char* actors
    const char* actors_end
    const char* talk
    const char* talk_end
    const char* body
    Py_ssize_t size  # of the body
    int64_t seq
    int64_t schema
    int64_t expected  # -1: not given
    int64_t fraction  # microseconds
    bint caused


cdef class Shortcut:
    """For the records of a topic of so many partitions."""

    cdef int partitions
    cdef object partition_of
    cdef dict threads
    cdef dict kinds

    def __init__(self, int partitions):
        from eventlog.kafka.partitioner import partition_of  # imports need no Kafka client

        self.partitions = partitions
        self.partition_of = partition_of
        self.threads = {}
        self.kinds = {}

    def take(self, list records not None, Py_ssize_t at, int64_t next_offset, packer):
        """Pack records from the one at place `at` on, as long as they ascend from `next_offset` and are what our
        writers send. Returns the place of the first that was not taken, and the bytes of those taken."""
        cdef list ids = packer.batch.ids, streams = packer.batch.streams, owners = packer.batch.owners
        cdef list digests = packer.batch.digests, expected = packer.batch.expected, starts = packer.batch.starts
        cdef list rows = packer.rows
        cdef Py_ssize_t size = packer.size, taken = 0
        cdef int64_t offset
        cdef Fields found
        cdef tuple thread, kind
        cdef bytes value, body, row, digest
        cdef object when
        try:
            while at < len(records):
                record = records[at]
                offset = record.offset
                given = record.value
                if offset < next_offset or given is None:
                    break
                value = given
                if not read(value, &found):
                    break
                thread = self.thread_of(&found)
                if thread is None or record.key != thread[5] or record.partition != thread[6]:
                    break
                kind = self.kind_of(&found)
                if kind is None:
                    break
                when = None
                body = PyBytes_FromStringAndSize(found.body, found.size)
                try:
                    if found.moment != NULL:
                        when = second_of(PyUnicode_DecodeASCII(found.moment, 19, NULL)) + found.fraction
                    look_through(body)
                except REFUSED:
                    break
                digest = sha256(preimage(&found, thread, kind, when)).digest()
                row = row_of(&found, thread, kind, when, digest, crc32(body))
                ids.append(PyBytes_FromStringAndSize(found.event_id, 16))
                streams.append(thread[0])
                owners.append(kind[4])
                digests.append(digest)
                expected.append(None if found.expected < 0 else found.expected)
                starts.append(size)
                rows.append(row)
                size += PyBytes_GET_SIZE(row)
                taken += PyBytes_GET_SIZE(value)
                next_offset = offset + 1
                at += 1
        finally:
            packer.size = size
        return at, taken

    cdef tuple thread_of(self, Fields* found):
        """Stream, its digest fields in two parts, its columns in two, its key and partition. None if refused."""
        cdef bytes key = joined(found.thread, found.thread_end, found.talk, found.talk_end)
        cdef tuple made = self.threads.get(key)
        if made is None:
            told = msgspec.json.decode(b"{" + key + b"}")
            stream, run = told["stream"], PyBytes_FromStringAndSize(found.run, 16)
            try:
                shared = thread_of(stream, told["writer"], run, told.get("correlation_id"), told.get("conversation"))
            except BadEvent:
                return None
            raw = stream.encode()
            made = (stream, *shared, raw, self.partition_of(raw, self.partitions))
            if len(self.threads) >= REMEMBERED:
                self.threads.clear()
            self.threads[key] = made
        return made

    cdef tuple kind_of(self, Fields* found):
        """Digest fields of type and actors, their columns, and the owner. None if refused."""
        cdef bytes key = joined(found.kind, found.kind_end, found.actors, found.actors_end)
        cdef tuple made = self.kinds.get(key)
        if made is None:
            told = msgspec.json.decode(b"{" + key + b"}")
            owner = told.get("owner")
            try:
                shared = kind_of(told["type"], found.schema, told.get("actor"), owner, told.get("key_id"))
            except BadEvent:
                return None
            made = (*shared, owner)
            if len(self.kinds) >= REMEMBERED:
                self.kinds.clear()
            self.kinds[key] = made
        return made


cdef class Episode:
    """`eventlog.interchange.rows.Episode`, compiled."""

    cdef readonly object packer
    cdef object begun
    cdef str stream, writer, conversation
    cdef bytes run
    cdef tuple thread
    cdef list ids, streams, owners, digests, expected, starts, rows

    def __init__(self, packer, str stream not None, str writer not None, bytes run not None, begun):
        batch = packer.batch
        self.packer, self.begun, self.stream, self.writer, self.run = packer, begun, stream, writer, run
        self.ids, self.streams, self.owners, self.digests = batch.ids, batch.streams, batch.owners, batch.digests
        self.expected, self.starts, self.rows = batch.expected, batch.starts, packer.rows

    def add(
        self, int64_t seq, str type_ not None, int64_t schema, occurred_at, str actor, str conversation,
        expected_version, bytes body not None,
    ):
        """Pack an event; None, or what is against it."""
        cdef Fields found
        cdef tuple kind = None
        cdef bytes event_id, digest, row
        event_id = self.id_of(seq)
        try:
            if (
                PyBytes_GET_SIZE(self.run) == 16
                and seq > 0
                and (occurred_at is None or FIRST_TIME <= occurred_at <= LAST_TIME)
                and (expected_version is None or expected_version >= 0)
                and is_object(PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))
            ):
                if self.thread is None or conversation != self.conversation:
                    self.thread = (None, *thread_of(self.stream, self.writer, self.run, None, conversation))
                    self.conversation = conversation
                look_through(body)
                kind = kind_of(type_, schema, actor, None, None)
        except REFUSED:
            pass
        if kind is None:
            return self.packer.add(
                event_id, self.stream, self.writer, self.run, seq, type_, schema, occurred_at, actor, None, None,
                None, None, conversation, expected_version, body,
            )
        memcpy(found.event_id, PyBytes_AS_STRING(event_id), 16)
        memcpy(found.run, PyBytes_AS_STRING(self.run), 16)
        found.seq, found.schema, found.caused = seq, schema, False
        found.body, found.size = PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body)
        digest = sha256(preimage(&found, self.thread, kind, occurred_at)).digest()
        row = row_of(&found, self.thread, kind, occurred_at, digest, crc32(body))
        size = self.packer.size
        self.ids.append(event_id)
        self.streams.append(self.stream)
        self.owners.append(None)
        self.digests.append(digest)
        self.expected.append(expected_version)
        self.starts.append(size)
        self.rows.append(row)
        self.packer.size = size + PyBytes_GET_SIZE(row)
        return None

    cdef bytes id_of(self, int64_t seq):
        """`core.identity.uuid8_of` what was begun, and its number."""
        cdef bytes number = b"%d" % seq, digest
        cdef bytes told = PyBytes_FromStringAndSize(NULL, 8 + PyBytes_GET_SIZE(number))
        cdef char raw[16]
        put(u64(PyBytes_AS_STRING(told), PyBytes_GET_SIZE(number)), number)
        whole = self.begun.copy()
        whole.update(told)
        digest = whole.digest()
        memcpy(raw, PyBytes_AS_STRING(digest), 16)
        raw[6], raw[8] = raw[6] & 0x0F | 0x80, raw[8] & 0x3F | 0x80
        return PyBytes_FromStringAndSize(raw, 16)


def unpack(bytes data not None, Py_ssize_t at, Py_ssize_t count, int64_t base, int partition):
    """The `count` records of a batch of format 2 (KIP-98), which begin `at` there and end with it; None where one
    has headers, or is not as it should be."""
    cdef const char* start = PyBytes_AS_STRING(data)
    cdef const char* here = start + at
    cdef const char* end = start + PyBytes_GET_SIZE(data)
    cdef const char* record_end
    cdef int64_t size, stamp, delta, headers
    cdef list found = []
    cdef object key, value
    for _ in range(count):
        here = varint(here, end, &size)
        if here == NULL or size < 1 or size > end - here:
            return None
        record_end = here + size
        here = varint(here + 1, record_end, &stamp)
        if here == NULL:
            return None
        here = varint(here, record_end, &delta)
        if here == NULL or delta < 0:
            return None
        here = sized(here, record_end, &size)
        if here == NULL:
            return None
        key = None if size < 0 else PyBytes_FromStringAndSize(here, size)
        here = sized(here + max(size, 0), record_end, &size)
        if here == NULL:
            return None
        value = None if size < 0 else PyBytes_FromStringAndSize(here, size)
        here += max(size, 0)
        here = varint(here, record_end, &headers)
        if here == NULL or headers != 0 or here != record_end:
            return None
        found.append(Record(partition, base + delta, key, value))
    return found if here == end else None


cdef const char* sized(const char* at, const char* end, int64_t* size) noexcept:
    """Where so many bytes begin, whose number comes first; it is negative where there is null. NULL if they are not
    all there."""
    at = varint(at, end, size)
    if at == NULL or size[0] > end - at:
        return NULL
    return at


cdef const char* varint(const char* at, const char* end, int64_t* number) noexcept:
    """A zigzag number, and where the next thing begins; NULL if it does not end."""
    cdef uint64_t value = 0
    cdef int shift = 0
    while at < end and shift < 64:
        value |= <uint64_t>(at[0] & 0x7F) << shift
        shift += 7
        at += 1
        if not (at - 1)[0] & 0x80:
            number[0] = <int64_t>(value >> 1) ^ -<int64_t>(value & 1)
            return at
    return NULL


# -- reading an envelope ---------------------------------------------------------------------------

cdef bint read(bytes value, Fields* found) noexcept:
    """Whether it is as `core.codec.encode` writes it, as far as it is looked at here."""
    cdef const char* at = PyBytes_AS_STRING(value)
    cdef const char* end = at + PyBytes_GET_SIZE(value)
    cdef const char* behind
    cdef Py_ssize_t i
    at = after(at, end, b'{"event_id":"')
    if at == NULL or not uuid(at, end, found.event_id):
        return False
    found.thread = at + 38  # behind `",`
    at = text(after(at + 36, end, b'","stream":"'), end)
    at = text(after(at, end, b',"writer":"'), end)
    at = after(at, end, b',"run":"')
    if at == NULL or not uuid(at, end, found.run):
        return False
    at += 37
    found.thread_end = at
    at = number(after(at, end, b',"seq":'), end, &found.seq)
    if at == NULL or found.seq == 0:
        return False
    found.kind = at + 1
    at = text(after(at, end, b',"type":"'), end)
    found.schema = 1
    behind = after(at, end, b',"schema":')
    if behind != NULL:
        at = number(behind, end, &found.schema)
    found.kind_end = at
    found.moment = after(at, end, b',"occurred_at":"')
    if found.moment != NULL:
        # 2026-01-02T03:04:05.000006Z
        if end - found.moment < 28 or found.moment[19] != c"." or found.moment[26] != c"Z" or found.moment[27] != c'"':
            return False
        found.fraction = 0
        for i in range(20, 26):
            if not c"0" <= found.moment[i] <= c"9":
                return False
            found.fraction = found.fraction * 10 + found.moment[i] - c"0"
        at = found.moment + 28
    found.actors = at
    at = optional(at, end, b',"actor":"')
    at = optional(at, end, b',"owner":"')
    at = optional(at, end, b',"key_id":"')
    found.actors_end = at
    behind = after(at, end, b',"causation_id":"')
    found.caused = behind != NULL
    if found.caused:
        if not uuid(behind, end, found.causation_id):
            return False
        at = behind + 37
    found.talk = at
    at = optional(at, end, b',"correlation_id":"')
    at = optional(at, end, b',"conversation":"')
    found.talk_end = at
    found.expected = -1
    behind = after(at, end, b',"expected_version":')
    if behind != NULL:
        at = number(behind, end, &found.expected)
    found.body = at = after(at, end, b',"payload":')
    if at == NULL:
        return False
    found.size = end - 1 - at
    return (end - 1)[0] == c"}" and is_object(at, found.size)


cdef bint is_object(const char* at, Py_ssize_t size) noexcept:
    """Whether a payload is no longer than it may be, and begins and ends as an object does."""
    return 2 <= size <= LONGEST and at[0] == c"{" and at[size - 1] == c"}"


cdef void look_through(bytes body) except *:
    """Raise what `core.event.body_of` raises, or RecursionError if what is nested may be too deep. A decoder that
    skips what an object holds finds all of that, but for texts that are no UTF-8 and numbers out of range."""
    cdef const char* at = PyBytes_AS_STRING(body)
    cdef Py_ssize_t i, brackets = 0, size = PyBytes_GET_SIZE(body)
    if is_plain(at, size):
        skip(body)
        return
    for i in range(size):
        brackets += at[i] == c"{" or at[i] == c"["
    if brackets > DEEPEST:
        raise RecursionError
    body_of(body)


cdef bint is_plain(const char* at, Py_ssize_t size) noexcept:
    """Whether JSON is ASCII, has too few brackets to be nested too deep, and no number with an exponent or of more
    digits than are surely in range."""
    cdef const char* end = at + size
    cdef Py_ssize_t digits = 0, brackets = 0
    if not is_ascii(at, size):
        return False
    while at < end:
        if at[0] == c'"':
            at = closing(at + 1, end)
            if at == NULL:
                return False
            digits = 0
        elif c"0" <= at[0] <= c"9":
            digits += 1
            if digits > MOST_DIGITS:
                return False
        elif digits and (at[0] == c"e" or at[0] == c"E"):
            return False
        else:
            digits = 0
            brackets += at[0] == c"{" or at[0] == c"["
        at += 1
    return brackets <= DEEPEST


cdef bint is_ascii(const char* at, Py_ssize_t size) noexcept:
    cdef uint64_t word = 0, seen = 0
    cdef Py_ssize_t i = 0
    while i + 8 <= size:
        memcpy(&word, at + i, 8)
        seen |= word
        i += 8
    word = 0
    memcpy(&word, at + i, size - i)
    return not (seen | word) & HIGH_BITS


cdef const char* closing(const char* first, const char* end) noexcept:
    """The quote that closes a JSON string, which begins at `first`; NULL if there is none."""
    cdef const char* at = first
    cdef const char* before
    while True:
        at = <const char*>memchr(at, c'"', end - at)
        if at == NULL:
            return NULL
        before = at
        while before > first and (before - 1)[0] == c"\\":
            before -= 1
        if not (at - before) & 1:
            return at
        at += 1


# Each answers where what follows begins, NULL if it is not there, or nothing was before it.

cdef inline const char* after(const char* at, const char* end, bytes name) noexcept:
    """Behind this very text."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(name)
    if at == NULL or end - at <= size or memcmp(at, PyBytes_AS_STRING(name), size) != 0:
        return NULL
    return at + size


cdef inline const char* text(const char* at, const char* end) noexcept:
    """Behind a JSON string of plain ASCII, whose opening quote lies before `at`."""
    if at == NULL:
        return NULL
    while at < end:
        if at[0] == c'"':
            return at + 1
        if at[0] < 32 or at[0] > 126 or at[0] == c"\\":
            return NULL
        at += 1
    return NULL


cdef inline const char* optional(const char* at, const char* end, bytes name) noexcept:
    """Behind a field with such a string, if it is there; if not, `at`."""
    cdef const char* behind = after(at, end, name)
    return at if behind == NULL else text(behind, end)


cdef inline const char* number(const char* at, const char* end, int64_t* value) noexcept:
    """Behind a number of at most 18 digits."""
    cdef const char* first = at
    if at == NULL:
        return NULL
    value[0] = 0
    while at < end and c"0" <= at[0] <= c"9" and at - first <= 18:
        value[0] = value[0] * 10 + at[0] - c"0"
        at += 1
    if at == first or at - first > 18 or (first[0] == c"0" and at - first > 1):
        return NULL
    return at


cdef bint uuid(const char* at, const char* end, char* raw) noexcept:
    """Whether 36 characters are a UUID in lower case, and a quote behind; its 16 bytes."""
    cdef int i, high, low
    if end - at < 37 or at[36] != c'"':
        return False
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            if at[0] != c"-":
                return False
            at += 1
        high, low = nibble(at[0]), nibble(at[1])
        if high < 0 or low < 0:
            return False
        raw[i] = <char>(high << 4 | low)
        at += 2
    return True


cdef inline int nibble(char digit) noexcept:
    if c"0" <= digit <= c"9":
        return digit - c"0"
    return digit - c"a" + 10 if c"a" <= digit <= c"f" else -1


cdef bytes joined(const char* first, const char* first_end, const char* second, const char* second_end):
    cdef bytes whole = PyBytes_FromStringAndSize(NULL, (first_end - first) + (second_end - second))
    memcpy(PyBytes_AS_STRING(whole), first, first_end - first)
    memcpy(PyBytes_AS_STRING(whole) + (first_end - first), second, second_end - second)
    return whole


# -- writing: what `core.digest.preimage` and `eventlog.pack` write --------------------------------

cdef bytes preimage(Fields* found, tuple thread, tuple kind, object when):
    cdef bytes author = thread[1], talk = thread[2], type_ = kind[0], actors = kind[1]
    cdef Py_ssize_t size = (
        PyBytes_GET_SIZE(BEGIN) + 16 + PyBytes_GET_SIZE(author) + 13 + PyBytes_GET_SIZE(type_)
        + (0 if when is None else 13) + PyBytes_GET_SIZE(actors) + (21 if found.caused else 0)
        + PyBytes_GET_SIZE(talk) + 5 + found.size
    )
    cdef bytes whole = PyBytes_FromStringAndSize(NULL, size)
    cdef char* to = put(PyBytes_AS_STRING(whole), BEGIN)
    to = put(raw16(to, found.event_id), author)
    to = put(u64(field(to, 5, 8), found.seq), type_)
    if when is not None:
        to = u64(field(to, 8, 8), <uint64_t><int64_t>when)
    to = put(to, actors)
    if found.caused:
        to = raw16(field(to, 12, 16), found.causation_id)
    to = field(put(to, talk), 15, <uint32_t>found.size)
    memcpy(to, found.body, found.size)
    return whole


cdef bytes row_of(Fields* found, tuple thread, tuple kind, object when, bytes digest, uint32_t crc):
    cdef bytes names = thread[3], talk = thread[4], type_ = kind[2], actors = kind[3]
    cdef Py_ssize_t size = (
        130 + PyBytes_GET_SIZE(names) + PyBytes_GET_SIZE(type_) + (4 if when is None else 12)
        + PyBytes_GET_SIZE(actors) + (20 if found.caused else 4) + PyBytes_GET_SIZE(talk) + 4 + found.size
    )
    cdef bytes whole = PyBytes_FromStringAndSize(NULL, size)
    cdef char* to = PyBytes_AS_STRING(whole)
    to[0], to[1] = 0, 19
    to = u64(u32(to + 2, 8), 0)
    to = u64(u32(to, 8), 0)
    to = raw16(u32(to, 16), found.event_id)
    to = raw16(u32(to, 16), found.run)
    to = u64(u32(to, 8), found.seq)
    to = u32(u32(to, 4), <uint32_t>found.schema)
    to = put(u32(to, 32), digest)
    to = u32(u32(to, 4), crc)
    to = put(put(to, names), type_)
    to = u32(to, NULL_COLUMN) if when is None else u64(u32(to, 8), <uint64_t>(<int64_t>when - SINCE))
    to = put(to, actors)
    to = raw16(u32(to, 16), found.causation_id) if found.caused else u32(to, NULL_COLUMN)
    to = u32(put(to, talk), <uint32_t>found.size)
    memcpy(to, found.body, found.size)
    return whole


cdef inline char* u32(char* to, uint32_t value) noexcept:
    to[0], to[1], to[2], to[3] = <char>(value >> 24), <char>(value >> 16), <char>(value >> 8), <char>value
    return to + 4


cdef inline char* u64(char* to, uint64_t value) noexcept:
    return u32(u32(to, <uint32_t>(value >> 32)), <uint32_t>value)


cdef inline char* field(char* to, char tag, uint32_t size) noexcept:
    to[0] = tag
    return u32(to + 1, size)


cdef inline char* raw16(char* to, const char* raw) noexcept:
    memcpy(to, raw, 16)
    return to + 16


cdef inline char* put(char* to, bytes what) noexcept:
    memcpy(to, PyBytes_AS_STRING(what), PyBytes_GET_SIZE(what))
    return to + PyBytes_GET_SIZE(what)
