"""Protocols that do one thing wrong each. The suite must be red with every one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from harness.protocols.kafka import frames
from harness.protocols.kafka.session import AT, Kafka, KafkaFrame, KafkaSession
from harness.protocols.postgres.session import Postgres, PostgresSession
from harness.protocols.service import Service, ServiceSession
from harness.protocols.stomp.session import Stomp, StompFrame, StompSession
from harness.protocols.tcp.session import Tcp, TcpSession, Turn
from harness.wire.protocol import Frame, Move, Need, Opaque, UnableError, Unframed
from harness.wire.rules import Direction
from tests.wire import kafka_frames as kf

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.events import Event
    from harness.wire.protocol import Data, Fed


class WrongStomp(Stomp):
    """STOMP, with sessions of its own."""

    base = "stomp"
    sessions: ClassVar[type[StompSession]]

    def session(self, conn: int, *, limit: int) -> StompSession:
        """Begin a connection."""
        return self.sessions(conn, limit)


class _HearsTwice(StompSession):
    def feed(self, way: Direction, data: Data) -> Fed:
        self._heard.clear()
        return super().feed(way, data)


class CountsWhatIsFedAgain(WrongStomp):
    """What is asked about twice has two numbers."""

    sessions = _HearsTwice


class _HasEnough(StompSession):
    def feed(self, way: Direction, data: Data) -> Fed:
        fed = super().feed(way, data)
        return Need(max(1, len(data))) if isinstance(fed, Need) else fed


class NeedsWhatItHas(WrongStomp):
    """It asks for as many bytes as there are."""

    sessions = _HasEnough


class _RegistersLate(StompSession):
    def sending(self, frame: StompFrame) -> None:
        pass

    def settled(self, frame: StompFrame, ledger: Any, *, reached: bool) -> Iterable[Event]:
        super().sending(frame)
        return super().settled(frame, ledger, reached=reached)


class RemembersWhatHasGone(WrongStomp):
    """A question is remembered when all of it has gone."""

    sessions = _RegistersLate


class _AllReaches(StompSession):
    def settled(self, frame: StompFrame, ledger: Any, *, reached: bool) -> Iterable[Event]:
        del reached
        return super().settled(frame, ledger, reached=True)


class SaysAllHasReached(WrongStomp):
    """Whatever becomes of a frame, it is said to have arrived."""

    sessions = _AllReaches


class _NoFacts(StompSession):
    def feed(self, way: Direction, data: Data) -> Fed:
        fed = super().feed(way, data)
        if isinstance(fed, Frame):
            fed.facts.pop("corr", None)
        return fed


class LeavesOutTheNumber(WrongStomp):
    """Nobody can tell two frames from each other."""

    sessions = _NoFacts


class _NumbersAsText(StompSession):
    def feed(self, way: Direction, data: Data) -> Fed:
        fed = super().feed(way, data)
        if isinstance(fed, Frame):
            fed.facts["corr"] = str(fed.facts["corr"])
        return fed


class SaysNumbersAsText(WrongStomp):
    """Its lines are damage, which voids each cell."""

    sessions = _NumbersAsText


class _Named(StompSession):
    def owner(self) -> str:
        return super().owner() or "somebody"


class KnowsItsClientBeforehand(WrongStomp):
    """It has a name for a client that has said nothing."""

    sessions = _Named


class _Beats(StompSession):
    def feed(self, way: Direction, data: Data) -> Fed:
        fed = super().feed(way, data)
        return (
            StompFrame("BEAT", fed.size, facts={"version": "", "corr": 0})
            if isinstance(fed, Unframed)
            else fed
        )


class TakesBeatsForFrames(WrongStomp):
    """A heart-beat is a step like any other."""

    sessions = _Beats


class _ReadsAhead(StompSession):
    def feed(self, way: Direction, data: Data) -> Fed:
        fed = super().feed(way, data)
        return Need(len(data) + 1) if isinstance(fed, Frame) and fed.size == len(data) else fed


class WantsOneByteMore(WrongStomp):
    """A frame is known when the next one has begun."""

    sessions = _ReadsAhead


class _Unreadable(StompSession):
    def feed(self, way: Direction, data: Data) -> Fed:
        fed = super().feed(way, data)
        return Opaque("it cannot be") if isinstance(fed, Frame) and fed.step == "RECEIPT" else fed


class ReadsNoReceipts(WrongStomp):
    """Some frames of the protocol are none to it."""

    sessions = _Unreadable


class _TakesAnything(StompSession):
    def feed(self, way: Direction, data: Data) -> Fed:
        fed = super().feed(way, data)
        return Unframed(len(data)) if isinstance(fed, Opaque) else fed


class TakesGarbageForNothing(WrongStomp):
    """What it cannot read passes as if it were nothing."""

    sessions = _TakesAnything


class _Raises(StompSession):
    def ended(self, by: str, ledger: Any) -> Iterable[Event]:
        raise RuntimeError(f"it has ended, {by} {ledger}")


class FailsAtTheEnd(WrongStomp):
    """The end of a connection is more than it can bear."""

    sessions = _Raises


class _SaysNoHello(StompSession):
    def move(self, frame: StompFrame, data: bytes) -> Move:
        del frame
        return Move(data)


class MovesWithoutAWord(WrongStomp):
    """What is moved comes to a server that does not know from whom."""

    sessions = _SaysNoHello


class WrongKafka(Kafka):
    """Kafka's protocol, with sessions of its own."""

    base = "kafka"
    sessions: ClassVar[type[KafkaSession]]

    def session(self, conn: int, *, limit: int) -> KafkaSession:
        """Begin a connection."""
        return self.sessions(conn, self.names, limit, self._users)


class _Fragile(KafkaSession):
    def feed(self, way: Direction, data: Data) -> Fed:
        return self._request(data) if way is Direction.REQUEST else self._response(data)


class RaisesAtGarbage(WrongKafka):
    """Bytes that are no frame are an error of its own."""

    sessions = _Fragile


class _InOneVersion(KafkaSession):
    def refuse(self, frame: KafkaFrame, data: bytes, error: str) -> bytes:
        super().refuse(frame, data, error)
        return kf.produce_answer(5, version=3, error=19)


class RefusesInOneVersion(WrongKafka):
    """A refusal is always the same."""

    sessions = _InOneVersion


class _AnswersAnother(KafkaSession):
    def refuse(self, frame: KafkaFrame, data: bytes, error: str) -> bytes:
        said = super().refuse(frame, data, error)
        corr: int = frame.facts["corr"]
        return said[:AT] + (corr + 1).to_bytes(AT) + said[2 * AT :]


class RefusesAnother(WrongKafka):
    """What is refused is the question behind it."""

    sessions = _AnswersAnother


class _RefusesNothing(KafkaSession):
    def refuse(self, frame: KafkaFrame, data: bytes, error: str) -> bytes:
        raise UnableError(f"{len(data)} bytes of {frame.step} are never refused by {error}")


class RefusesNothing(WrongKafka):
    """It cannot do what its steps say that it can."""

    sessions = _RefusesNothing


class _Keeps(KafkaSession):
    def feed(self, way: Direction, data: Data) -> Fed:
        fed = super().feed(way, data)
        size = (
            frames.frame_size(data, least=0) + AT
            if len(data) >= AT and not isinstance(fed, Opaque)
            else 0
        )
        return Need(size) if size > len(data) else fed


class WantsTheWholeFrame(WrongKafka):
    """However large it is."""

    sessions = _Keeps


class _NewEachTime(TcpSession):
    def sending(self, frame: Turn) -> None:
        super().sending(frame)
        self._speaks = None


class TakesEachPieceForATurn(Tcp):
    """Every piece of what one side says is a turn of its own."""

    base = "tcp"

    def session(self, conn: int, *, limit: int) -> TcpSession:
        """Begin a connection."""
        del limit
        return _NewEachTime(conn)


class _GivesUp(ServiceSession):
    def feed(self, way: Direction, data: Data) -> Fed:
        return self._postgres.feed(way, data)


class VoidsWhatItCannotRead(Service):
    """What is not PostgreSQL's at a service is opaque."""

    base = "service"

    def session(self, conn: int, *, limit: int) -> ServiceSession:
        """Begin a connection."""
        return _GivesUp(conn, limit)


class _Movable(PostgresSession):
    def move(self, frame: Frame, data: bytes) -> Move:
        del frame
        return Move(data)


class MovesATransaction(Postgres):
    """What is its connection's is sent over another one."""

    base = "postgres"

    def session(self, conn: int, *, limit: int) -> PostgresSession:
        """Begin a connection."""
        return _Movable(conn, limit)
