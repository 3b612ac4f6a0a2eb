"""Personal data of common kinds in a text: where it stands, and the text without it.

Found are e-mail addresses, phone numbers, IBANs, national identity numbers and IP addresses, by
their form and, where they have them, their check digits. Names, addresses and everything else that
identifies a person are not looked for: *a text in which nothing is found is not free of personal
data*. Nor is what is found always personal: an order number can pass as a phone number.

The libraries are the extra ``privacy``; without it nothing can be found or masked (`available`).
"""

from propme.personal_data.finding import KINDS, REGIONS, Found, available, find_personal_data
from propme.personal_data.masking import Masked, mask, masked, masked_with_what_follows, note

__all__ = [
    "KINDS",
    "REGIONS",
    "Found",
    "Masked",
    "available",
    "find_personal_data",
    "mask",
    "masked",
    "masked_with_what_follows",
    "note",
]
