"""Where personal data of common kinds stands in a text."""

from __future__ import annotations

import importlib.util
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from propme.errors import ParameterError

#: Kinds in the order in which they are tried: what passes as several is the first of them.
KINDS = ("e-mail", "IBAN", "CPR", "identity number", "IP address", "phone")

#: Regions whose phone and identity numbers are looked for unless others are named.
REGIONS = ("DK", "GB", "US")

# Every pattern below takes a bounded number of signs from where it starts, so that a search takes
# time linear in the text, whatever stands in it.
_ANY = re.compile(r"[\d@]")  # every kind has one of these
_EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]{1,64}+@(?:[^\W_][\w-]{0,62}+\.){1,8}[^\W\d_]{2,63}+")
_IBAN_START = re.compile(r"(?<![^\W_])[A-Z]{2}[0-9]{2}(?=[ \u00a0-]?[A-Z0-9])", re.IGNORECASE)
_IBAN_REST = re.compile(r"(?:[ \u00a0-]?[A-Z0-9]){11,30}", re.IGNORECASE)
_IPV4 = re.compile(r"(?<![\w.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?!\w|\.[0-9])")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:.]{3,46}+(?!\w)")

#: Of the extra ``privacy``.
_PACKAGES = ("stdnum", "phonenumbers")

_DIGITS_10 = r"(?<!\w)[0-9]{6}[ \u00a0-]?[0-9]{4}(?!\w)"


@dataclass(frozen=True, slots=True)
class _Identity:
    """How one country's identity number is written, and the module that checks it."""

    kind: str
    pattern: re.Pattern[str]
    module: str


_IDENTITY = {
    "DK": (_Identity("CPR", re.compile(_DIGITS_10), "stdnum.dk.cpr"),),
    "FI": (
        _Identity(
            "identity number",
            re.compile(r"(?<!\w)[0-9]{6}[-+A-FU-Y][0-9]{3}[0-9A-Z](?!\w)"),
            "stdnum.fi.hetu",
        ),
    ),
    "GB": (
        _Identity(
            "identity number",
            re.compile(r"(?<!\w)[0-9]{3}[ -]?[0-9]{3}[ -]?[0-9]{4}(?!\w)"),
            "stdnum.gb.nhs",
        ),
        # National insurance: it has no check digit, so its form alone decides.
        _Identity(
            "identity number",
            re.compile(
                r"(?<!\w)(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?"
                r"[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D](?!\w)"
            ),
            "",
        ),
    ),
    "NO": (
        _Identity(
            "identity number",
            re.compile(r"(?<!\w)[0-9]{6} ?[0-9]{5}(?!\w)"),
            "stdnum.no.fodselsnummer",
        ),
    ),
    "SE": (
        _Identity(
            "identity number",
            re.compile(r"(?<!\w)(?:[0-9]{2})?[0-9]{6}[-+]?[0-9]{4}(?!\w)"),
            "stdnum.se.personnummer",
        ),
    ),
    # Nine digits without hyphens are most often something else.
    "US": (
        _Identity(
            "identity number",
            re.compile(r"(?<!\w)[0-9]{3}-[0-9]{2}-[0-9]{4}(?!\w)"),
            "stdnum.us.ssn",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Found:
    """Personal data of one kind, at characters ``[start, stop)`` of a text."""

    kind: str
    start: int
    stop: int

    def __post_init__(self) -> None:
        if self.kind not in KINDS or not 0 <= self.start < self.stop:
            raise ParameterError(
                f"found {self.kind!r} at [{self.start}, {self.stop}): the kind must be one of"
                f" {KINDS}, the place not empty"
            )

    def moved(self, by: int) -> Found:
        """The same in a text that has so many characters more before it."""
        return Found(self.kind, self.start + by, self.stop + by)


def available() -> bool:
    """Whether the extra ``privacy`` is installed, without which personal data is not looked for."""
    return all(importlib.util.find_spec(name) for name in _PACKAGES)


def find_personal_data(text: str, regions: Sequence[str] = REGIONS) -> tuple[Found, ...]:
    """Where personal data of common kinds stands in a text.

    Parameters
    ----------
    text : str
        Any text; the time is linear in its length.
    regions : sequence of str
        ISO 3166 codes. Of each, phone numbers without a country code are found; identity numbers
        of DK, FI, GB, NO, SE and US. IBANs and numbers with a country code are found of any.

    Returns
    -------
    tuple of Found
        In order, without overlap. What overlaps is one, of the kind that is first in `KINDS`.

    Raises
    ------
    ParameterError
        The extra ``privacy`` is missing, or a region is unknown.

    Notes
    -----
    *How it misleads.* A CPR number need not satisfy its check digit since 2007, so a date of birth
    that is past is all that is asked: about 4 in 100 random numbers of ten digits pass. Asking for
    the check digit would miss most people born lately. Eight digits pass as a Danish phone
    number more often than not, four small numbers with dots (a version) as an IP address. Missed is
    what is written in words, obfuscated (``name at example.org``) or cut by the end of the text.
    """
    _check(regions)
    if not _ANY.search(text):  # as in most prose, and many times as fast
        return ()
    found = [place for detector in _detectors(regions) for place in detector(text)]
    return tuple(merged(found))


def _check(regions: Sequence[str]) -> None:
    if not available():
        raise ParameterError(
            "personal data cannot be looked for: pip install 'propme[privacy]' first"
        )
    from phonenumbers import SUPPORTED_REGIONS

    unknown = sorted(set(regions) - set(SUPPORTED_REGIONS))
    if unknown:
        raise ParameterError(f"regions: {unknown} are no ISO 3166 codes in capitals, such as 'DK'")


def _detectors(regions: Sequence[str]) -> Iterator[Callable[[str], Iterator[Found]]]:
    yield from (_emails, _ibans)
    for region in regions:
        for identity in _IDENTITY.get(region, ()):
            yield partial(_identities, identity=identity)
    yield _ip_addresses
    for region in regions:
        yield partial(_phones, region=region)


def _emails(text: str) -> Iterator[Found]:
    for match in _EMAIL.finditer(text):
        yield Found("e-mail", *match.span())


def _ibans(text: str) -> Iterator[Found]:
    from stdnum import iban

    for start in _IBAN_START.finditer(text):
        rest = _IBAN_REST.match(text, start.end())
        # Words may follow, so shorter ones are tried too; length and check digits decide.
        for stop in range(rest.end() if rest else 0, start.end() + 10, -1):
            if text[stop : stop + 1].isalnum() or not text[stop - 1].isalnum():
                continue
            number = re.sub(r"[ \u00a0-]", "", text[start.start() : stop]).upper()
            if iban.is_valid(number, check_country=False):
                yield Found("IBAN", start.start(), stop)
                break


def _identities(text: str, identity: _Identity) -> Iterator[Found]:
    for match in identity.pattern.finditer(text):
        number = match[0].replace("\u00a0", " ")
        if not identity.module or importlib.import_module(identity.module).is_valid(number):
            yield Found(identity.kind, *match.span())


def _ip_addresses(text: str) -> Iterator[Found]:
    for match in (*_IPV4.finditer(text), *_IPV6.finditer(text)):
        address = match[0].rstrip(".")
        # "::" and "c::d" are rather code.
        if not re.search("[0-9]", address) or ("." not in address and address.count(":") < 2):
            continue
        try:
            ipaddress.ip_address(address)
        except ValueError:
            continue
        yield Found("IP address", match.start(), match.start() + len(address))


def _phones(text: str, region: str) -> Iterator[Found]:
    from phonenumbers import PhoneNumberMatcher

    # By default the matcher gives up after 65535 candidates that are none.
    for match in PhoneNumberMatcher(text, region, max_tries=len(text) + 1):
        # The matcher takes a bracket in that opens before the number and closes after it.
        unclosed = match.raw_string.startswith("(") and ")" not in match.raw_string
        yield Found("phone", match.start + unclosed, match.end)


def merged(found: Iterable[Found]) -> list[Found]:
    """Overlapping places as one, so that nothing of any is left over."""
    whole: list[Found] = []
    for place in sorted(found, key=lambda f: (f.start, f.stop)):
        if whole and place.start < whole[-1].stop:
            last = whole.pop()
            kind = min(last.kind, place.kind, key=KINDS.index)
            place = Found(kind, last.start, max(last.stop, place.stop))
        whole.append(place)
    return whole
