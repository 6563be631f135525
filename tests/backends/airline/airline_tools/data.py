"""The airline's world, made up: the same every time."""

import random
from typing import Any

CITIES = ("OSL", "LIS", "RIG", "VIE", "ATH", "DUB")


def load_data(users: int = 40) -> dict[str, Any]:
    """Users, their reservations and the flights of ten days."""
    chance = random.Random(7)
    flights = {
        f"TL{number:03}": {
            "flight_number": f"TL{number:03}",
            "origin": CITIES[number % 6],
            "destination": CITIES[(number // 6 + number + 1) % 6],
            "scheduled_departure": f"{6 + number % 14:02}:15:00",
            "dates": {
                f"2026-05-{day:02}": {"seats": chance.randrange(1, 40), "price": chance.randrange(40, 400)}
                for day in range(1, 11)
            },
        }
        for number in range(36)
    }
    found: dict[str, Any] = {"users": {}, "reservations": {}, "flights": flights, "next": 1}
    for number in range(users):
        name = f"user_{number:04}"
        booked = [f"R{number:04}{letter}" for letter in "AB"[: 1 + number % 2]]
        found["users"][name] = {
            "name": {"first": "Ida", "last": f"Berg{number}"},
            "address": {"street": f"Quay {number}", "city": "Bergen", "province": "VL", "zip": f"{5000 + number}"},
            "payment_methods": {f"card_{number}": {"source": "card", "amount": chance.randrange(100, 2000)}},
            "reservations": booked,
        }
        for code in booked:
            flight = chance.choice(list(flights))
            found["reservations"][code] = {
                "reservation_id": code,
                "user_id": name,
                "flight_number": flight,
                "date": f"2026-05-{chance.randrange(1, 11):02}",
                "bags": chance.randrange(3),
                "status": "booked",
            }
    return found
