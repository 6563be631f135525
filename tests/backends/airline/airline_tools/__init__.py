"""A small airline as benchmarks write one: classes of a static `invoke` over a data dict, JSON text out,
failures as texts that begin with Error. It stands for other people's code: nothing of ours is in it."""

import json
from typing import Any

from .data import load_data

__all__ = ["ALL_TOOLS", "load_data"]

Data = dict[str, Any]


def info(name: str, about: str, **parameters: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}


class GetUserDetails:
    @staticmethod
    def invoke(data: Data, user_id: str) -> str:
        users = data["users"]
        return json.dumps(users[user_id]) if user_id in users else "Error: user not found"

    @staticmethod
    def get_info() -> dict[str, Any]:
        return info("get_user_details", "A user's profile and reservations.", user_id="string")


class GetReservationDetails:
    @staticmethod
    def invoke(data: Data, reservation_id: str) -> str:
        found = data["reservations"].get(reservation_id)
        return json.dumps(found) if found else "Error: reservation not found"

    @staticmethod
    def get_info() -> dict[str, Any]:
        return info("get_reservation_details", "A reservation.", reservation_id="string")


class SearchDirectFlight:
    @staticmethod
    def invoke(data: Data, origin: str, destination: str, date: str) -> str:
        found = [
            {**{key: value for key, value in flight.items() if key != "dates"}, **flight["dates"][date]}
            for flight in data["flights"].values()
            if flight["origin"] == origin and flight["destination"] == destination and date in flight["dates"]
        ]
        return json.dumps(found)

    @staticmethod
    def get_info() -> dict[str, Any]:
        return info("search_direct_flight", "Flights.", origin="string", destination="string", date="string")


class BookReservation:
    @staticmethod
    def invoke(data: Data, user_id: str, flight_number: str, date: str, payment_id: str) -> str:
        if user_id not in data["users"]:
            return "Error: user not found"
        user = data["users"][user_id]
        day = data["flights"].get(flight_number, {}).get("dates", {}).get(date)
        if day is None or day["seats"] < 1:
            return f"Error: no seat on {flight_number} on {date}"
        if payment_id not in user["payment_methods"]:
            return "Error: payment method not found"
        payment = user["payment_methods"][payment_id]
        if payment["amount"] < day["price"]:
            return "Error: not enough balance"
        payment["amount"] -= day["price"]
        day["seats"] -= 1
        code = f"N{data['next']:04}"
        data["next"] += 1
        made = {"reservation_id": code, "user_id": user_id, "flight_number": flight_number, "date": date}
        data["reservations"][code] = {**made, "bags": 0, "status": "booked"}
        user["reservations"].append(code)
        return json.dumps(data["reservations"][code])

    @staticmethod
    def get_info() -> dict[str, Any]:
        return info(
            "book_reservation", "Book.", user_id="string", flight_number="string", date="string", payment_id="string"
        )


class CancelReservation:
    @staticmethod
    def invoke(data: Data, reservation_id: str) -> str:
        if reservation_id not in data["reservations"]:
            return "Error: reservation not found"
        data["reservations"][reservation_id]["status"] = "cancelled"
        return json.dumps(data["reservations"][reservation_id])

    @staticmethod
    def get_info() -> dict[str, Any]:
        return info("cancel_reservation", "Cancel a reservation.", reservation_id="string")


class UpdateBags:
    @staticmethod
    def invoke(data: Data, reservation_id: str, bags: int) -> str:
        if reservation_id not in data["reservations"]:
            return "Error: reservation not found"
        data["reservations"][reservation_id]["bags"] = bags
        return json.dumps(data["reservations"][reservation_id])

    @staticmethod
    def get_info() -> dict[str, Any]:
        return info("update_bags", "Change how many bags.", reservation_id="string", bags="integer")


class Calculate:
    @staticmethod
    def invoke(data: Data, expression: str) -> str:
        if not all(character in "0123456789+-*/(). " for character in expression):
            return "Error: invalid characters in expression"
        return str(round(float(eval(expression, {"__builtins__": None}, {})), 2))

    @staticmethod
    def get_info() -> dict[str, Any]:
        return info("calculate", "Do a sum.", expression="string")


class Think:
    @staticmethod
    def invoke(data: Data, thought: str) -> str:
        return ""

    @staticmethod
    def get_info() -> dict[str, Any]:
        return info("think", "Think.", thought="string")


ALL_TOOLS = [
    GetUserDetails,
    GetReservationDetails,
    SearchDirectFlight,
    BookReservation,
    CancelReservation,
    UpdateBags,
    Calculate,
    Think,
]
