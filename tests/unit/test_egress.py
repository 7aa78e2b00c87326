# ruff: noqa: RUF001, S104 - these spellings are the subject of the tests
"""The guarded client never connects to a forbidden address, however the address is spelled.

No test uses a network: names are resolved by the test, and connections are only recorded.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpcore2
import pytest

from jobforge.config import Config
from jobforge.connectors.egress import (
    EgressClient,
    EgressRequest,
    EgressResponse,
    Policy,
    policy_from_config,
    read_url,
)
from jobforge.connectors.egress.addresses import is_public, parse_address
from jobforge.connectors.egress.policy import own_addresses, parse_allow_entry
from jobforge.errors import (
    AddressNotAllowed,
    BadResponse,
    ConfigError,
    EgressError,
    Invalid,
    TooManyRedirects,
    Unreachable,
)

pytestmark = pytest.mark.anyio

PUBLIC = "93.184.216.34"
OTHER = "2606:2800:220:1::1"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
TUNNEL = b"HTTP/1.1 200 Established\r\n\r\n"
HTTP = Policy(allow_http=True)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Network(httpcore2.AsyncNetworkBackend):
    """Responds to each connection with the next of `answers`; `peer` is the address at its other
    end."""

    answers: list[bytes] = field(default_factory=lambda: [OK])
    peer: str | None = None
    down: frozenset[str] = frozenset()
    connected: list[tuple[str, int]] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    greeted: list[str | None] = field(default_factory=list)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - signature of httpcore2
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        del timeout, local_address, socket_options
        self.connected.append((host, port))
        if host in self.down:
            raise httpcore2.ConnectError
        return Stream(self, self.answers.pop(0) if self.answers else OK, self.peer or host)


class Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, network: Network, answer: bytes, peer: str) -> None:
        self._network = network
        self._answer = answer
        self._peer = peer
        network.sent.append(b"")

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - signature of httpcore2
        del timeout
        part = self._answer[:max_bytes]
        if part.startswith(TUNNEL):  # what follows arrives only after a request
            part = TUNNEL
        self._answer = self._answer[len(part) :]
        return part

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - signature of httpcore2
        del timeout
        self._network.sent[-1] += buffer

    async def aclose(self) -> None:
        pass

    async def start_tls(
        self,
        ssl_context: object,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - signature of httpcore2
    ) -> httpcore2.AsyncNetworkStream:
        del ssl_context, timeout
        self._network.greeted.append(server_hostname)
        return self

    def get_extra_info(self, info: str) -> Any:
        return (self._peer, 443) if info == "server_addr" else None


class Names:
    """A resolver that returns other addresses each time it is called."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        del port
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


async def send(
    url: str,
    network: Network,
    *names: Sequence[str],
    policy: Policy = HTTP,
    **more: Any,
) -> EgressResponse:
    egress = EgressClient(policy, resolve=Names(*(names or ([PUBLIC],))), network=network)
    return await egress.send(EgressRequest(more.pop("method", "GET"), url, **more))


def redirect(where: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Go\r\nlocation: {where}\r\ncontent-length: 0\r\n\r\n".encode()


HOSTS = [
    *("127.0.0.1", "127.1", "127.0.1", "0", "0.0.0.0", "2130706433", "017700000001", "0x7f000001"),
    *("0177.0.0.1", "0x7f.0.0.1", "127.0.0.01", "127.0.0.1.", "127。0。0。1", "１２７．０．０．１"),
    *("①②⑦.⓪.⓪.①", "0x7f.1", "00000000000000000000000177.0.0.1", "127.0.0.1%00.example.com"),
    *("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.100.100.200"),
    *("169.254.169.254", "2852039166", "0xa9fea9fe", "169.254.43518", "168.63.129.16"),
    *("192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "192.88.99.1"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *("[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"),
    *("[::127.0.0.1]", "[::7f00:1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]"),
    *("[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]"),
    *("[2001:0:4136:e378:8000:63bf:3fff:fdd2]", "[2001::1]", "[fe80::1]", "[fe80::1%25eth0]"),
    *("[fe80::1%eth0]", "[fc00::1]", "[fd00:ec2::254]", "[fec0::1]", "[ff02::1]", "[100::1]"),
    *("[2001:db8::1]", "[3fff::1]", "[5f00::1]", "[2620:4f:8000::1]", "[4000::1]"),
    *("localhost", "LOCALHOST", "localhost.", "a.localhost", "ⓛocalhost", "metadata", "intern"),
    *("metadata.google.internal", "printer.local", "db.corp", "1.0.0.127.in-addr.arpa"),
]


@pytest.mark.attack("SSRF")
@pytest.mark.parametrize("host", HOSTS)
async def test_a_host_that_is_not_public_is_refused_before_any_connection(host: str) -> None:
    network, names = Network(), Names(["127.0.0.1"])
    egress = EgressClient(HTTP, resolve=names, network=network)
    for url in (f"http://{host}/", f"https://{host}/x?y", f"http://{host}:80/"):
        with pytest.raises((AddressNotAllowed, Invalid)) as refused:
            await egress.send(EgressRequest("GET", url))
        assert "127.0.0.1" not in str(refused.value)
    assert (network.connected, names.asked) == ([], [])


URLS = [
    *("http://user@example.com/", "http://user:pw@example.com/", "http://@example.com/"),
    *("http://example.com@127.0.0.1/", "http://127.0.0.1\\@example.com/", "http://example.com\\x"),
    *(
        "http://exa mple.com/",
        "http://example.com/\r\nHost: x",
        "http://example.com/\x00",
        "http://",
    ),
    *("ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "//example.com/", "x"),
    *("javascript:alert(1)", "unix:///run/x.sock", "http:example.com", "http:///example.com"),
    *("http://example.com:22/", "http://example.com:25/", "http://example.com:5432/"),
    *("http://example.com:6379/", "http://example.com:0/", "http://example.com:99999/"),
    *("http://example.com:8080/", "http://example.com:x/", "http://[::1/", "http://[example.com]/"),
    *("http://-a.example.com/", "http://a..example.com/", "http://%65xample.com/", "http://*/"),
    *("http://[2606:2800:220:1::1].example.com/", "http://[2606:2800:220:1::1]@example.com/"),
    "http://example.com/" + "a" * 2048,
]


@pytest.mark.attack("SSRF")
@pytest.mark.parametrize("url", URLS)
async def test_an_ambiguous_url_is_refused_before_any_connection(url: str) -> None:
    network = Network()
    with pytest.raises((AddressNotAllowed, Invalid)):
        await send(url, network)
    assert network.connected == []


async def test_http_is_refused_unless_the_operator_allows_it() -> None:
    network = Network()
    with pytest.raises(AddressNotAllowed):
        await send("http://example.com/", network, policy=Policy())
    assert network.connected == []
    await send("http://example.com/", network, policy=HTTP)
    assert network.connected == [(PUBLIC, 80)]


@pytest.mark.attack("SSRF")
@pytest.mark.parametrize(
    "answers",
    [
        ["127.0.0.1"],
        [PUBLIC, "10.0.0.1"],
        [PUBLIC, "::1"],
        ["::ffff:10.0.0.1"],
        ["64:ff9b::a00:1"],
        ["fe80::1%eth0"],
        ["168.63.129.16"],
        ["fd00:ec2::254"],
        [OTHER, "2002:a00:1::"],
        ["garbage"],
    ],
)
async def test_a_name_with_one_forbidden_address_is_refused(answers: list[str]) -> None:
    network = Network()
    with pytest.raises(AddressNotAllowed) as refused:
        await send("https://rebind.example.com/", network, answers)
    assert network.connected == []
    assert not any(address in str(refused.value) for address in answers)


async def test_a_name_is_resolved_once_and_the_checked_address_is_used() -> None:
    network, names = Network(), Names([PUBLIC], ["127.0.0.1"])
    egress = EgressClient(Policy(), resolve=names, network=network)
    await egress.send(EgressRequest("GET", "https://rebind.example.com/path"))
    assert (names.asked, network.connected) == (["rebind.example.com"], [(PUBLIC, 443)])
    assert network.greeted == ["rebind.example.com"]
    assert b"host: rebind.example.com\r\n" in network.sent[0]
    with pytest.raises(AddressNotAllowed):
        await egress.send(EgressRequest("GET", "https://rebind.example.com/path"))
    assert network.connected == [(PUBLIC, 443)]


@pytest.mark.attack("SSRF")
async def test_a_connection_to_another_address_is_closed_unused() -> None:
    for peer in ("127.0.0.1", "10.0.0.1", "unix"):
        network = Network(peer=peer)
        with pytest.raises(AddressNotAllowed):
            await send("https://example.com/", network)
        assert network.sent == [b""]


async def test_the_next_address_is_tried_when_one_is_unreachable() -> None:
    network = Network(down=frozenset({OTHER}))
    assert (await send("https://example.com/", network, [OTHER, PUBLIC])).body == b"ok"
    assert [host for host, _ in network.connected] == [OTHER, PUBLIC]
    network = Network(down=frozenset({PUBLIC}))
    with pytest.raises(Unreachable) as error:
        await send("https://example.com/", network)
    assert PUBLIC not in str(error.value)


@pytest.mark.attack("SSRF")
@pytest.mark.parametrize(
    "where",
    [
        *("http://127.0.0.1/", "http://[::1]/", "//169.254.169.254/latest", "https://2130706433/"),
        *("http://user@example.com/", "http://other.example.com:6379/", "http://localhost/"),
        *(
            "file:///etc/passwd",
            "http://[64:ff9b::7f00:1]/",
            "https://127。0。0。1/",
            "gopher://x/",
        ),
    ],
)
async def test_a_redirect_is_checked_like_the_first_url(where: str) -> None:
    network = Network(answers=[redirect(where)])
    with pytest.raises((AddressNotAllowed, BadResponse)):
        await send("http://example.com/", network, redirects=3)
    assert network.connected == [(PUBLIC, 80)]


@pytest.mark.attack("SSRF")
async def test_a_name_that_changes_between_redirects_is_refused() -> None:
    network = Network(answers=[redirect("/again")])
    with pytest.raises(AddressNotAllowed):
        await send("http://example.com/", network, [PUBLIC], ["10.0.0.1"], redirects=3)
    assert network.connected == [(PUBLIC, 80)]


async def test_more_redirects_than_allowed_are_not_followed() -> None:
    network = Network(answers=[redirect(f"/{number}") for number in range(1000)])
    with pytest.raises(TooManyRedirects):
        await send("http://example.com/", network, redirects=3)
    assert len(network.connected) == 4


async def test_without_redirects_the_response_is_the_redirect() -> None:
    network = Network(answers=[redirect("http://127.0.0.1/")])
    assert (await send("http://example.com/", network)).status == 302
    assert len(network.connected) == 1


async def test_private_headers_are_sent_to_the_first_origin_only() -> None:
    headers = (("Authorization", "a"), ("Cookie", "b"), ("X-Token", "c"), ("X-Plain", "d"))
    for where, hidden in (("/same", False), ("http://other.example.com/", True)):
        network = Network(answers=[redirect(where, 307), redirect("http://example.com/")])
        await send(
            "http://example.com/", network, headers=headers, private_headers=frozenset({"x-token"}),
            redirects=3, method="POST",
        )  # fmt: skip
        seen = [all(value in sent for value in (b": a", b": b", b": c")) for sent in network.sent]
        # Headers that were dropped stay dropped when a redirect leads back.
        assert seen == [True, not hidden, not hidden]
        assert all(b"X-Plain: d" in sent for sent in network.sent)
        assert network.sent[2].startswith(b"GET ")


CREDENTIALS = (
    *("Private-Token", "X-Vault-Token", "apikey", "X-Api-Key", "Ocp-Apim-Subscription-Key"),
    *("X-Goog-Api-Key", "X-Functions-Key", "X-Amz-Security-Token", "X-Auth", "X-Session-Id"),
    *("X-Hub-Signature-256", "X-Shopify-Access-Token", "X-Client-Secret", "X-XSRF-TOKEN"),
    *("Authorization", "Proxy-Authentication", "Cookie", "X-Password", "X-JWT-Assertion"),
)


@pytest.mark.attack("redirects")
@pytest.mark.parametrize("name", CREDENTIALS)
async def test_a_credential_is_sent_to_the_first_origin_only(name: str) -> None:
    network = Network(answers=[redirect("http://other.example.com/"), OK])
    headers = ((name, "hunter-2"), ("Idempotency-Key", "7"), ("Accept-Language", "de"))
    await send("http://example.com/", network, headers=headers, redirects=3)
    assert [b"hunter-2" in sent for sent in network.sent] == [True, False]
    assert b"Idempotency-Key: 7" in network.sent[1]
    assert b"Accept-Language: de" in network.sent[1]


@pytest.mark.attack("redirects")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_body_is_sent_to_the_first_origin_only(status: int, method: str) -> None:
    network = Network(answers=[redirect("http://other.example.com/", status), OK])
    request = send(
        "http://example.com/", network, redirects=3, method=method, body=b"card number"
    )  # fmt: skip
    if status == 303 or (status in {301, 302} and method == "POST"):
        await request
        assert network.sent[1].startswith(b"GET ")
    else:
        with pytest.raises(BadResponse, match="another origin") as caught:
            await request
        assert caught.value.is_final
        assert len(network.connected) == 1
    assert [b"card number" in sent for sent in network.sent][1:] in ([], [False])


async def test_a_body_is_sent_again_to_the_same_origin() -> None:
    network = Network(answers=[redirect("/there", 308), OK])
    await send("http://example.com/", network, redirects=3, method="POST", body=b"body")
    assert [b"body" in sent for sent in network.sent] == [True, True]


HEADERS = [
    *(("X-A", "b\r\nHost: evil"), ("X-A", "b\nX: y"), ("X-A", "b\x00"), ("X\r\nY", "b"), ("", "b")),
    *(("X A", "b"), ("X:", "b"), ("Host", "evil"), ("host", "evil"), ("Connection", "x")),
    *(("Transfer-Encoding", "chunked"), ("Content-Length", "0"), ("Upgrade", "h2c"), ("TE", "x")),
    *(("Proxy-Authorization", "x"), ("Expect", "100-continue"), ("X-A", "€"), ("X-A", "b" * 9000)),
]


@pytest.mark.attack("HTTP header injection")
@pytest.mark.parametrize("header", HEADERS, ids=lambda header: repr(header)[:40])
async def test_a_header_cannot_contain_another(header: tuple[str, str]) -> None:
    network = Network()
    with pytest.raises(Invalid) as refused:
        await send("http://example.com/", network, headers=(header,))
    assert network.connected == []
    assert "evil" not in str(refused.value)


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ):
        monkeypatch.setenv(name, "http://127.0.0.1:3128")
    network = Network()
    await send("https://example.com/", network)
    await send("http://example.com/", network)
    assert network.connected == [(PUBLIC, 443), (PUBLIC, 80)]


async def test_a_configured_proxy_is_used_for_every_request() -> None:
    network = Network(answers=[TUNNEL + OK])
    policy = Policy(proxy="http://u:p@proxy.internal:3128", allow_http=True)
    await send("https://example.com/", network, policy=policy)
    assert network.connected == [("proxy.internal", 3128)]
    assert network.sent[0].startswith(b"CONNECT example.com:443 ")
    with pytest.raises(AddressNotAllowed):
        await send("https://127.0.0.1/", network, policy=policy)
    with pytest.raises(ConfigError):
        EgressClient(Policy(proxy="socks5://proxy"))


def test_an_operator_allows_exactly_the_listed_addresses_and_ports() -> None:
    policy = Policy(
        allowed=tuple(
            map(parse_allow_entry, ("10.1.2.3:8443", "10.9.0.0/16", "*:8080", "[fd00::1]:81"))
        ),
        allow_http=True,
    )
    for url in (
        *(
            "https://10.1.2.3:8443/",
            "https://10.9.1.1/",
            "http://10.9.1.1/",
            "http://[fd00::1]:81/",
        ),
        *("http://example.com:8080/", f"http://{PUBLIC}:8080/"),
    ):
        read_url(url, policy)
    for url in (
        *("https://10.1.2.3/", "https://10.1.2.4:8443/", "https://10.9.1.1:8443/"),
        *("http://10.1.2.3:8080/", "http://[fd00::1]/", "http://[::ffff:10.1.2.3]:8443/"),
        *("http://example.com:22/", f"http://{PUBLIC}:8443/"),
    ):
        with pytest.raises(AddressNotAllowed):
            read_url(url, policy)
    for entry in ("10.0.0.1:0", "host", "*", "10.0.0.1:x", "10.0.0.0/33", "[::1", "::1:x"):
        with pytest.raises(ConfigError):
            parse_allow_entry(entry)


def test_the_database_and_this_machine_are_forbidden_even_at_public_addresses() -> None:
    policy = policy_from_config(Config(database_url=f"postgresql://u:p@{PUBLIC}:5432/x"))
    for host in (PUBLIC, f"[64:ff9b::{PUBLIC}]"):
        with pytest.raises(AddressNotAllowed):
            read_url(f"https://{host}/", policy)
    read_url("https://93.184.216.35/", policy)
    assert own_addresses() <= policy.forbidden
    assert parse_address("127.0.0.1") in own_addresses()


def test_public_addresses_are_allowed() -> None:
    public = (PUBLIC, OTHER, "8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "64:ff9b::808:808")
    for text in public:
        address = parse_address(text)
        assert address is not None
        assert is_public(address)


def test_a_url_is_normalized() -> None:
    spelled = read_url("HTTPS://BÜCHER.Example.:443/ä b?q=ü#part".replace(" ", "%20"), Policy())
    assert spelled.url == "https://xn--bcher-kva.example/%C3%A4%20b?q=%C3%BC"
    assert read_url("https://[2606:2800:220:1:0:0:0:1]:443", Policy()).url == f"https://[{OTHER}]/"


async def test_errors_of_the_transport_name_no_address() -> None:
    async def fails(host: str, port: int) -> Sequence[str]:
        raise OSError(f"{host}:{port} at 10.0.0.53")

    with pytest.raises(EgressError) as error:
        await EgressClient(Policy(), resolve=fails).send(
            EgressRequest("GET", "https://example.com/")
        )
    assert "10.0.0.53" not in str(error.value)
    assert error.value.__suppress_context__
