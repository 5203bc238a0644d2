"""Numbers of persons, accounts, cards and telephones, with examples that those who give the numbers have published."""

import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import ValidationError

from curate.rewrite import pii_ids
from curate.rewrite.pii import Pii
from curate.rewrite.pii_scan import HAS_ASSIGNED, HAS_AT, HAS_CODE, HAS_IPV4, HAS_IPV6, HAS_TOKEN

DATA = Path(os.environ.get("CURATE_DATA") or Path(__file__).parents[3] / "shared" / "data")
EVERYTHING = {
    "phones": True,
    "phone_regions": ("US", "BR", "DE"),
    "national_ids": "all",
    "ibans": True,
    "payment_cards": True,
    "secrets": True,
}


def row(text, **settings):
    batch = pa.record_batch({"text": pa.array([text], pa.large_string())})
    (found,) = Pii(**(EVERYTHING | settings)).apply(batch).to_pylist()
    return found


def masked(text, **settings):
    return row(text, **settings)["text"]


# Valid, with its source; what takes its place.
PUBLISHED = [
    ("cpf", "529.982.247-25"),  # the worked example of the Receita's algorithm in most textbooks
    ("cpf", "111.444.777-35"),
    ("cnpj", "11.222.333/0001-81"),  # worked example of the numeric CNPJ
    ("cnpj", "12.ABC.345/01DE-35"),  # Receita Federal, "CNPJ alfanumérico": worked example of the check digits
    ("dni", "12.345.678-Z"),  # specimen of the DNI
    ("nir", "2 55 08 14 168 025 38"),  # INSEE's form, key 38
    ("codice_fiscale", "RSSMRA85T10A562S"),  # Mario Rossi, the specimen
    ("codice_fiscale", "MRT MTT 25D09 F205Z"),
    ("resident_identity", "11010519491231002X"),  # GB 11643-1999, its example
    ("resident_identity", "440524188001010014"),
    ("iban", "GB82 WEST 1234 5698 7654 32"),  # SWIFT registry
    ("iban", "DE89370400440532013000"),
    ("iban", "FR14 2004 1010 0505 0001 3M02 606"),
    ("iban", "NO93 8601 1117 947"),
    ("payment_card", "4111 1111 1111 1111"),  # test numbers of the networks
    ("payment_card", "5555-5555-5555-4444"),
    ("payment_card", "3782 822463 10005"),
]
NEEDS_A_WORD = [
    ("CPF", "52998224725"),
    ("CNPJ", "11222333000181"),
    ("SSN:", "123-45-6789"),
    ("Social Security number", "123456789"),
    ("NIF", "500960046"),  # Caixa Geral de Depósitos
    ("contribuinte n.º", "500 960 046"),
    ("VAT", "PT 500960046"),
    ("NIPC:", "PT500960046"),
    ("DNI", "12345678Z"),
    ("NIE:", "X1234567L"),
    ("sécurité sociale :", "255081416802538"),
    ("Steuer-ID", "86095742719"),  # the Federal Central Tax Office's example
    ("IdNr.", "47 036 892 816"),
    ("BSN", "111222333"),
    ("burgerservicenummer", "123456782"),
    ("PESEL", "44051401359"),  # the specimen
    ("PESEL:", "02070803628"),  # gov.pl: born in 2002
    ("Aadhaar", "9999 9999 0019"),  # UIDAI's test number
    ("visa card", "4111111111111111"),
]


@pytest.mark.parametrize(("kind", "number"), PUBLISHED)
def test_published_numbers(kind, number):
    shape = "".join("0" if sign.isdigit() else "X" if sign.isalpha() else sign for sign in number)
    column = {"iban": "num_ibans", "payment_card": "num_payment_cards"}.get(kind, "num_national_ids")
    for before, behind in (("", ""), ("It is ", "."), ("(", "), that"), ("编号", "。")):
        found = row(f"{before}{number}{behind}")
        assert found["text"] == f"{before}{shape}{behind}"
        assert (found[column], found["num_pii"]) == (1, 1)


@pytest.mark.parametrize(("kind", "number"), PUBLISHED)
def test_one_digit_wrong(kind, number):
    for place in range(len(number) - 1, -1, -1):
        if number[place].isdigit():  # the last one is a check digit, or checked by it
            wrong = number[:place] + str((int(number[place]) + 1) % 10) + number[place + 1 :]
            break
    assert masked(f"It is {wrong}.", phones=False, phone_regions=()) == f"It is {wrong}."


@pytest.mark.parametrize(("word", "number"), NEEDS_A_WORD)
def test_numbers_that_need_a_word(word, number):
    shape = "".join("0" if sign.isdigit() else "X" if sign.isalpha() else sign for sign in number)
    settings = {"phones": False, "phone_regions": ()}
    assert masked(f"{word} {number}, as said", **settings) == f"{word} {shape}, as said"
    assert masked(f"Batch {number}, as said", **settings) == f"Batch {number}, as said"
    far = f"{word}{' and so on' * 6} {number}"
    assert masked(far, **settings) == far
    if word not in ("SSN:", "Social Security number"):  # these have no check digit
        place = max(place for place, sign in enumerate(number) if sign.isdigit())
        wrong = number[:place] + str((int(number[place]) + 1) % 10) + number[place + 1 :]
        assert masked(f"{word} {wrong}, as said", **settings) == f"{word} {wrong}, as said"


def test_check_digits_by_hand():
    # Luhn: 7 9 9 2 7 3 9 8 7 1 | 3, every second doubled from the right: 2, 7, 7 (16), 9, 6, 7, 4, 9, 9 (18), 7 = 67, and 3 make 70.
    assert [pii_ids.luhn(f"7992739871{digit}") for digit in range(10)].index(True) == 3
    assert [pii_ids.verhoeff(f"236{digit}") for digit in range(10)].index(True) == 3  # Verhoeff's 236 has check digit 3
    # CPF 111.444.777: 10+9+8+4*(7+6+5)+7*(4+3+2) = 162, 162 mod 11 = 8, 11-8 = 3; with it 204, 204 mod 11 = 6, 5.
    assert pii_ids.cpf("11144477735")
    assert not pii_ids.cpf("11111111111")
    # DNI 12345678 mod 23 = 14: the fifteenth of TRWAGMYFPDXBNJZ...
    assert pii_ids.dni("12345678Z")
    # BSN 111222333: 9+8+7+2*(6+5+4)+3*(3+2)-3 = 66 = 6 * 11
    assert pii_ids.bsn("111222333")


@pytest.mark.parametrize(
    "number", ["000-12-3456", "666-12-3456", "900-12-3456", "123-00-4567", "123-45-0000", "078-05-1120"]
)
def test_impossible_ssn(number):
    assert masked(f"SSN: {number}", phones=False, phone_regions=()) == f"SSN: {number}"


def test_portuguese_nif_by_hand():
    # 5*9 + 9*6 + 6*5 + 4*2 = 137 = 12*11 + 5, and 11 - 5 = 6
    assert [pii_ids.nif(f"50096004{digit}") for digit in range(10)].index(True) == 6
    assert not any(pii_ids.nif(f"{kind}0096004{digit}") for kind in "04" for digit in range(10))  # no such taxpayers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is AB 12 34 56 C.", "It is XX 00 00 00 X."),
        ("National Insurance number: AB123456C", "National Insurance number: XX000000X"),
        ("NINO AB 123456 C", "NINO XX 000000 X"),
        ("Batch AB123456C, AB 123456 C", None),
        ("NINO QQ123456C DA123456C AO123456C GB123456C ZZ123456A AB123456E", None),  # HMRC NIM39110
        ("NINO AB12345C XAB123456C AB123456CD", None),
    ],
)
def test_national_insurance(text, expected):
    assert masked(text, phones=False, phone_regions=()) == (expected or text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Invoice 4711 DE89 3704 0044 0532 0130 00", "Invoice 4711 XX00 0000 0000 0000 0000 00"),
        ("4711 DE89370400440532013000 17", "4711 XX00000000000000000000 17"),
        ("4711,DE89370400440532013000,100.00", "4711,XX00000000000000000000,100.00"),
        ("DE89 3704 0044 0532 0130 00 12.03.2024", "XX00 0000 0000 0000 0000 00 12.03.2024"),
        ("Invoice 4711 DE89 3704 0044 0532 0130 01", None),
        ("4711-DE89370400440532013000 4711DE89370400440532013000", None),
    ],
)
def test_ibans_beside_numbers(text, expected):
    assert masked(text, phones=False, phone_regions=()) == (expected or text)


def test_dates_inside_numbers():
    assert not pii_ids.pesel("44053201359")  # 32 May
    assert pii_ids.resident_identity("11010519491231002X")
    assert not pii_ids.resident_identity("11010519491331002X")
    assert not pii_ids.resident_identity("99010519491231002X")  # no such province
    assert not pii_ids.steuer_id("12345678903")  # ten different digits


@pytest.mark.parametrize(
    ("text", "expected", "count"),
    [
        ("Call +55 11 91234-5678 now", "Call +00 00 00000-0000 now", 1),
        ("+1 (212) 736-5000 or +44 20 7946 0958", "+0 (000) 000-0000 or +00 00 0000 0000", 2),
        ("Tel. (11) 91234-5678", "Tel. (00) 00000-0000", 1),
        ("(212) 736-5000", "(000) 000-0000", 1),
        ("Telefon: 030 901820", "Telefon: 000 000000", 1),
        ("phone 2127365000", "phone 0000000000", 1),
        # No telephone numbers, or none that can be told.
        ("2127365000", None, 0),
        ("+55 11 1234", None, 0),
        ("+999 123 456 7890", None, 0),
        ("1998 October, 2000 1999, 2010-2012, 1914 - 1918", None, 0),
        ("2012-03-04 12:30:45 and 04/03/2012", None, 0),
        ("ISBN 978-3-16-148410-0 and ISBN 0-306-40615-2", None, 0),
        ("doi:10.1000/182 and 10.1038/s41586-020-2649-2", None, 0),
        ("version 2.127.365.5000 and 1.2.3.4567890", None, 0),
        ("3,141,592,653 and 1 234 567 890", None, 0),
        ("f(x) = 212-736", None, 0),
        ("4e1243bd22c66e76c2ba9eddc1f91394e57f9f83 and 0x2127365000", None, 0),
        ("https://site.org/2127365000/212-736-5000", None, 0),
        ("GB/T 7408-1994 and 256 000 000 B", None, 0),
        ("[ 111  134  157 ]", None, 0),
    ],
)
def test_phones(text, expected, count):
    found = row(text)
    assert found["text"] == (text if expected is None else expected)
    assert found["num_phones"] == count


@pytest.mark.parametrize(
    ("text", "expected", "count"),
    [
        ("phones 13800138000, 13900139000; 13700137000 and 13600136000", "phones {0}, {0}; {0} and {0}", 4),
        ("电话：13800138000、13900139000", "电话：{0}、{0}", 2),
        ("联系电话13800138000咨询", "联系电话{0}咨询", 1),
        ("mobile:13800138000", "mobile:{0}", 1),
        ("whatsapp 11912345678 / 11912345679", "whatsapp {0} / {0}", 2),
        ("telefones: +55 11 91234-5678 e 11912345678", "telefones: +00 00 00000-0000 e {0}", 2),
        ("Order: (212) 736-5000", "Order: (000) 000-0000", 1),
        ("Call part 212-736-5000", None, 0),
        ("13800138000, 13900139000", None, 0),
        ("数量13800138000个", None, 0),
        ("phone 13800138000 in 2024, 13900139000", "phone {0} in 2024, 13900139000", 1),
        ("see part 900-12-3456 of it, or 900-12-3456", None, 0),
        *(
            (f"{word} 212-736-5000", None, 0)
            for word in ("part no.", "Item", "ref.", "order #", "Model:", "Pedido nº", "no.")
        ),
        ("12:2127365000 x:212-736-5000", None, 0),
    ],
)
def test_words_before_telephone_numbers(text, expected, count):
    found = row(text, phone_regions=("US", "BR", "DE", "FR", "PT", "GB", "JP", "CN"), national_ids="off")
    assert found["text"] == (text if expected is None else expected.format("0" * 11))
    assert found["num_phones"] == count


def test_national_form_only_where_asked_for():
    assert masked("(212) 736-5000", phone_regions=()) == "(212) 736-5000"
    assert masked("(212) 736-5000", phone_regions=("DE",)) == "(212) 736-5000"
    assert masked("+1 212 736 5000", phone_regions=()) == "+0 000 000 0000"


@pytest.mark.parametrize(
    "text",
    [
        "1529.982.247-25 529.982.247-251 1.529.982.247-25 a529.982.247-25",
        "CPF 152998224725 and CPF 5299822472501",
        "4111 1111 1111 1111 2222 and 1234 4111 1111 1111 1111",
        "card 41111111111111110000",
        "https://site.org/529.982.247-25",
        "DE89370400440532013000ABC xGB82WEST12345698765432",
        "sha1 da39a3ee5e6b4b0d3255bfef95601890afd80709 md5 d41d8cd98f00b204e9800998ecf8427e",
        "3.14159265358979323846 2.71828182845904523536",
        "UUID 123e4567-e89b-12d3-a456-426614174000",
        "BUILD-20240131-000123 RFC2119 ISO-8859-1 UTF-16LE A1B2C3D4E5",
        "cards: 1234567890123456",
    ],
)
def test_parts_of_longer_numbers_and_other_codes(text):
    found = row(text, phones=False, phone_regions=())
    assert (found["text"], found["num_pii"]) == (text, 0)


def test_masking_twice_changes_and_counts_nothing():
    text = "; ".join(
        [number for _, number in PUBLISHED]
        + [f"{word} {number}" for word, number in NEEDS_A_WORD]
        + ["Tel. (11) 91234-5678", "+44 20 7946 0958", "joe@site.org", "8.8.8.8"]
    )
    once = row(text)
    assert once["num_pii"] == len(PUBLISHED) + len(NEEDS_A_WORD) + 4
    again = row(once["text"])
    assert (again["text"], again["num_pii"]) == (once["text"], 0)


def test_each_kind_is_switched_by_itself():
    text = "a@b.org 8.8.8.8 +44 20 7946 0958; 529.982.247-25; GB82 WEST 1234 5698 7654 32; 4111 1111 1111 1111"
    off = {"emails": "off", "ip_addresses": "off", "phones": False, "phone_regions": (), "national_ids": "off"}
    off |= {"ibans": "off", "payment_cards": "off", "secrets": "off"}
    on = [
        ("num_emails", {"emails": True}),
        ("num_ip_addresses", {"ip_addresses": "public"}),
        ("num_phones", {"phones": True}),
        ("num_national_ids", {"national_ids": ("cpf",)}),
        ("num_ibans", {"ibans": True}),
        ("num_payment_cards", {"payment_cards": True}),
    ]
    assert row(text, **off)["num_pii"] == 0
    for column, settings in on:
        found = row(text, **(off | settings))
        assert (found[column], found["num_pii"]) == (1, 1)
    assert row(text, **(off | {"national_ids": ("pesel",)}))["num_pii"] == 0
    default = Pii().apply(pa.record_batch({"text": pa.array([text], pa.large_string())})).to_pylist()[0]
    assert (default["num_emails"], default["num_ip_addresses"], default["num_pii"]) == (1, 1, 2)


def test_counting_without_masking_and_the_rule():
    text = "a@b.org c@d.org e@f.org 529.982.247-25"
    found = row(text, mask="off", max_spans=3)
    assert (found["text"], found["num_pii"]) == (text, 4)
    (rule,) = Pii(max_spans=5).rules("pii")
    assert (rule.name, rule.column, rule.at_most) == ("pii.max_spans", "num_pii", 5.0)  # Dolma: more than 5 go
    assert Pii(max_spans="off").rules("pii") == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"national_ids": ("cfp",)}, "cfp: unknown"),
        ({"phones": True, "phone_regions": ("br",)}, "br: no ISO 3166-1 code"),
        ({"phone_regions": ("BR",)}, "phones is off"),
        ({"max_spans": -1}, "greater than or equal to 0"),
    ],
)
def test_refused_settings(settings, message):
    with pytest.raises(ValidationError, match=message):
        Pii(**settings)


def test_what_the_pass_sees():
    from curate.rewrite.pii import _flags

    seen = {
        "plain prose, no more than 1,234 words in 1984": 0,
        "a @ b": HAS_AT,
        "1.2.3": 0,
        "1.2.3.4": HAS_IPV4,
        "1...2...3...4": 0,
        "a::b": HAS_IPV6,  # a and b are hexadecimal
        "std::cout": HAS_IPV6,
        "x::y": 0,
        "12:30:45": 0,
        "1:2:3:4:5:6:7:8": HAS_IPV6,
        "123456": 0,
        "AB 12 34 56 C": HAS_CODE,
        "AB 12 34 56": 0,
        "1234567": HAS_CODE,
        "12 34 56 7": HAS_CODE,
        "12 34 56,7": 0,
        "ABCDEFG HIJKL12": HAS_CODE,
        "ABCDEFGHIJKLM1": 0,
        "abcdefgh-ijkl_mnopqrst": HAS_TOKEN,
        "abcdefgh-ijkl_mnopqrs": 0,
        "a = 'b'": HAS_ASSIGNED,
        'a: b"c"': HAS_ASSIGNED,
        'a => "b"': HAS_ASSIGNED,
        "a = b 'c'": 0,
        "he said 'b'": 0,
    }
    texts = pa.array(list(seen), pa.large_string())
    assert dict(zip(seen, _flags(texts, secrets=True).tolist(), strict=True)) == seen
    assert _flags(texts.slice(3, 2), secrets=False).tolist() == [HAS_IPV4, 0]
    assert _flags(texts.slice(0, 0), secrets=False).tolist() == []


def test_null_text_and_text_around():
    batch = pa.record_batch({"text": pa.array([None, "é 529.982.247-25 é", "x"], pa.large_string())})
    rows = Pii(**EVERYTHING).apply(batch).to_pylist()
    assert [found["text"] for found in rows] == ["", "é 000.000.000-00 é", "x"]


def test_false_finds_in_real_text():
    """The books are older than every kind of number here; a find in them is false, but for Project Gutenberg's own address."""
    path = DATA / "04_books" / "books.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"real input {path} is absent: set CURATE_DATA to the folder that holds 04_books")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    step = Pii(**(EVERYTHING | {"phone_regions": ("US", "BR", "PT", "DE", "FR", "ES", "NL", "GB")}))
    found = step.apply(pa.record_batch({"text": pa.array(texts, pa.large_string())})).to_pylist()
    counts = {name: sum(one[name] for one in found) for name in step.adds}
    print(f"{sum(map(len, texts)) / 1e6:.1f} million characters of books: {counts}")
    assert (
        counts["num_national_ids"] == counts["num_ibans"] == counts["num_payment_cards"] == counts["num_secrets"] == 0
    )
    gutenberg = sum(text.count("(801) 596-1887") for text in texts)
    assert counts["num_phones"] == gutenberg
