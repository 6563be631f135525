"""A made set for measuring near-duplicates: each goal with its plan, three rewordings of it, and a sibling,
which asks for the same with other values and is another task.

`light`: politeness, punctuation, case, word order. `medium`: synonyms, a clause moved, numbers spelled
otherwise. `heavy`: said anew, as another writer would.
"""

from typing import NamedTuple


class Made(NamedTuple):
    goal: str
    plan: tuple[str, ...]
    light: str
    medium: str
    heavy: str
    sibling: str


SET = (
    Made(
        "Set an alarm for 6:45 on weekdays and name it Gym",
        ("list_alarms", "set_alarm"),
        "Please set an alarm for 6:45 on weekdays, and name it gym.",
        "Create an alarm called Gym that rings at 6:45 on every weekday",
        "I go to the gym before work, so wake me Monday to Friday at a quarter to seven and label it Gym",
        "Set an alarm for 8:30 on weekends and name it Market",
    ),
    Made(
        "Tell Ann that I am running 15 minutes late and ask her to order for me",
        ("find_contact", "send_message"),
        "Could you tell Ann that I am running 15 minutes late, and ask her to order for me?",
        "Message Ann that I will be 15 minutes late and ask if she can order for me",
        "I won't make it on time; drop Ann a line: it will be a quarter of an hour, she should order for both",
        "Tell Boris that I am running 40 minutes late and ask him to start without me",
    ),
    Made(
        "Add a dentist appointment on March 3 at 14:00 to my calendar and remind me one hour before",
        ("list_events", "create_event", "set_reminder"),
        "Add to my calendar a dentist appointment on March 3 at 14:00 and remind me one hour before, please",
        "Put the dentist on March 3, 14:00, in my calendar with a reminder one hour earlier",
        "I'm seeing the dentist on the third of March at 2 pm. Note it in the diary and ping me at one",
        "Add a haircut appointment on April 9 at 10:30 to my calendar and remind me one day before",
    ),
    Made(
        "Book the cheapest direct flight from Lisbon to Oslo on May 20 and pay with the gift card",
        ("search_flights", "get_payment_methods", "book_flight"),
        "Please book the cheapest direct flight from Lisbon to Oslo on May 20, and pay with my gift card.",
        "On May 20 I want to fly directly from Lisbon to Oslo as cheaply as possible; use the gift card",
        "Get me to Oslo from Lisbon, nonstop, on the twentieth of May. Lowest fare, charged to my gift card",
        "Book the cheapest direct flight from Madrid to Vienna on June 2 and pay with the credit card",
    ),
    Made(
        "Move all photos from last weekend into an album called Lake and share it with Maria",
        ("search_photos", "create_album", "move_photos", "share_album"),
        "Move all the photos from last weekend into an album called Lake, then share it with Maria.",
        "Create an album named Lake with every photo of last weekend and share it with Maria",
        "Maria wants to see the pictures I took on Saturday and Sunday. Collect them under Lake and give her access",
        "Move all screenshots from last month into an album called Receipts and share it with Paul",
    ),
    Made(
        "Turn off the lights in the kitchen and set the thermostat to 19 degrees",
        ("list_devices", "set_light", "set_thermostat"),
        "Turn off the kitchen lights and set the thermostat to 19 degrees",
        "Switch the lights in the kitchen off and put the thermostat at 19 degrees",
        "Nobody is in the kitchen: no light needed there, and bring the heating down to 19",
        "Turn off the lights in the garage and set the thermostat to 22 degrees",
    ),
    Made(
        "Find the cheapest pharmacy within 2 km that is open now and give me directions",
        ("get_location", "search_places", "get_directions"),
        "Please find the cheapest pharmacy that is open now within 2 km, and give me directions.",
        "Search for a pharmacy within 2 km that is open right now, the cheapest, and show the way",
        "I need medicine now. Which drugstore nearby, 2 km at most, costs the least and how do I get there?",
        "Find the best bakery within 5 km that is open on Sunday and give me directions",
    ),
    Made(
        "Transfer 250 euros from savings to checking and pay the electricity bill",
        ("list_accounts", "transfer", "list_bills", "pay_bill"),
        "Transfer 250 euros from my savings to my checking and pay the electricity bill, please.",
        "Move 250 euros from savings over to checking, then pay the bill for electricity",
        "The power company wants its money. Take 250 out of my savings account first so that checking covers it",
        "Transfer 90 euros from checking to savings and pay the water bill",
    ),
    Made(
        "Cancel my reservation H9ZU1C and refund it to the original payment method",
        ("get_reservation", "cancel_reservation"),
        "Please cancel reservation H9ZU1C and refund to the original payment method.",
        "I want to cancel the reservation H9ZU1C, with the refund going to the original payment",
        "We're not travelling any more, H9ZU1C can go. Send the money back to where it came from",
        "Cancel my reservation Q4KKM2 and refund it as a voucher",
    ),
    Made(
        "Read my unread mail from the landlord and summarise what he wants",
        ("search_mail", "read_mail"),
        "Read my unread mail from the landlord, and summarise what he wants from me.",
        "Summarise the unread mails of the landlord: what does he want?",
        "My landlord wrote and I have not looked yet. What is he after, in short?",
        "Read my unread mail from the insurance and summarise what they owe",
    ),
    Made(
        "Create a shopping list for pancakes for four people and add it to Groceries",
        ("search_recipes", "create_list", "add_items"),
        "Create a shopping list for pancakes for 4 people, and add it to Groceries.",
        "Make a list of what to buy for pancakes for four and put it into Groceries",
        "Four of us want pancakes tomorrow. Write down in Groceries everything I have to get",
        "Create a shopping list for lasagne for six people and add it to Saturday",
    ),
    Made(
        "Block the number 555-0199 and delete its voicemails",
        ("list_voicemails", "block_number", "delete_voicemail"),
        "Please block number 555-0199 and delete its voicemails!",
        "Delete the voicemails of 555-0199 and block that number",
        "555-0199 keeps bothering me. I never want to hear from them again, and get rid of what they left",
        "Block the number 555-0123 and archive its messages",
    ),
    Made(
        "Change the delivery address of order 88123 to 14 Elm Street before it ships",
        ("get_order", "update_address"),
        "Change the delivery address of order 88123 to 14 Elm Street, before it ships.",
        "Before order 88123 is shipped, update its delivery address to 14 Elm Street",
        "I've moved: what I bought under 88123 has to go to 14 Elm Street, quick, while it is still in the warehouse",
        "Change the delivery address of order 90417 to 2 Oak Lane before it ships",
    ),
    Made(
        "Play the playlist Focus on the living room speaker at volume 30",
        ("list_speakers", "play_playlist", "set_volume"),
        "Play playlist Focus on the speaker in the living room, at volume 30.",
        "Put the playlist Focus on in the living room, speaker volume 30",
        "I want to concentrate. Focus, please, not too loud, thirty or so, on the speaker where the sofa is",
        "Play the playlist Party on the kitchen speaker at volume 80",
    ),
    Made(
        "Check in for flight LH455 and choose an aisle seat near the front",
        ("get_flight", "list_seats", "check_in"),
        "Please check in for flight LH455, and choose an aisle seat near the front.",
        "Do the check-in for LH455 with a seat on the aisle close to the front",
        "Tomorrow's Lufthansa 455: get me my boarding pass, aisle, as far forward as there is",
        "Check in for flight BA117 and choose a window seat near the back",
    ),
    Made(
        "Remind me to water the plants every third day at 18:00 until August 31",
        ("create_reminder",),
        "Remind me every third day at 18:00 to water the plants, until August 31.",
        "Every third day, at 18:00, until August 31, I need a reminder for watering the plants",
        "The plants die when I forget them. Nudge me at six in the evening, every three days, for the rest of August",
        "Remind me to feed the fish every second day at 09:00 until July 15",
    ),
    Made(
        "Translate the last message of Kenji into English and reply that Friday works",
        ("read_messages", "translate", "send_message"),
        "Translate Kenji's last message into English, and reply that Friday works.",
        "What Kenji wrote last, translate it into English; then answer him that Friday works",
        "I can't read what Kenji sent. What does it say in English? And let him know Friday is fine",
        "Translate the last message of Ines into German and reply that Monday works",
    ),
    Made(
        "Lower the screen brightness to 20 percent and turn on battery saver",
        ("get_settings", "set_brightness", "set_battery_saver"),
        "Lower the brightness of the screen to 20 percent and turn battery saver on",
        "Set screen brightness to 20 percent and switch the battery saver on",
        "My phone is nearly empty: dim it to a fifth and save power",
        "Lower the screen brightness to 60 percent and turn on night light",
    ),
    Made(
        "Return the blue jacket from order 70021 because it is too small and get a refund",
        ("get_order", "return_item"),
        "Please return the blue jacket from order 70021, because it is too small, and get a refund.",
        "The blue jacket in order 70021 is too small; return it for a refund",
        "Order 70021 came with a jacket I can't get into, the blue one. Send it back and have them give me my money",
        "Return the red shoes from order 70388 because they are too big and get a refund",
    ),
    Made(
        "Order a taxi from the office to the airport for 5:30 tomorrow morning",
        ("get_addresses", "order_taxi"),
        "Order a taxi for 5:30 tomorrow morning from the office to the airport.",
        "Get a taxi tomorrow at 5:30 in the morning, from the office to the airport",
        "I fly early tomorrow. Someone has to pick me up at work at half past five and drive me to the plane",
        "Order a taxi from the hotel to the station for 21:15 tonight",
    ),
    Made(
        "Compare my steps of this week with last week and share the difference with Tom",
        ("get_steps", "send_message"),
        "Compare my steps of this week with those of last week, and share the difference with Tom.",
        "Share with Tom how my steps of this week differ from last week",
        "Tom bets I walk less than I did the week before. Count and tell him by how much",
        "Compare my sleep of this month with last month and share the difference with Lena",
    ),
    Made(
        "Download the boarding pass from the mail of Iberia and save it to Travel",
        ("search_mail", "download_attachment", "move_file"),
        "Download the boarding pass from Iberia's mail and save it to Travel",
        "Save the boarding pass that came in the mail from Iberia into Travel",
        "Iberia sent me something I need at the gate. Put it where I keep travel papers",
        "Download the invoice from the mail of Vodafone and save it to Taxes",
    ),
    Made(
        "Set up a video call with the design team on Thursday at 11 and send the agenda",
        ("list_events", "create_event", "send_mail"),
        "Set up a video call on Thursday at 11 with the design team, and send the agenda.",
        "Schedule a video call with the design team for Thursday, 11, and send them the agenda",
        "The designers and I have to talk on Thursday, late morning, eleven. Online. They should know about what",
        "Set up a video call with the sales team on Monday at 15 and send the slides",
    ),
    Made(
        "Find out which app used the most mobile data this month and restrict it to Wi-Fi",
        ("get_data_usage", "restrict_app"),
        "Find out which app used most mobile data this month, and restrict it to Wi-Fi.",
        "Which app has used the most mobile data this month? Restrict it to Wi-Fi",
        "Something eats my data plan. Find the culprit and let it online at home only",
        "Find out which app used the most battery this week and stop it in the background",
    ),
)
"""24 goals of a phone's assistant."""
