"""Effects that begin, end in every way, are undone, and begin again."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import multiple, rule

from louver.canonical import fingerprint
from louver.errors import ValueRefused
from louver.ledger.human_queue_contract import Word
from louver.ledger.names import EffectKind, OnUnknown
from louver.ledger.requests import EffectRequest
from louver.states import Source
from support.histories.stage import Stage
from support.histories.values import EFFECTS, INTENTS, TICKETS, TOKENS, VALUES, WHO, mostly
from support.side_by_side import Refused

__all__ = ["Effects", "intent_hash"]

_ENDS = (
    *("commit_effect",) * 3,
    "fail_effect",
    "lose_effect",
    "retry_effect",
    "keep_effect",
    "give_up_undo",
)
_ANEW = "begin_anew"
_BY_PEOPLE = ("settle_effect", "settle_effect", "reopen_undo", "renew_effect")
_WORD = Word(actor="ann", reason="asked the bank", source=Source.CLI)

# The newest record that was shown of an effect, or the first one.
_WHICH = st.sampled_from([-1, 0])


def intent_hash(intent):
    """Hash of an intent; of one that cannot be kept, some other."""
    try:
        return fingerprint(intent)
    except ValueRefused:
        return "0" * 64


class Effects(Stage):
    """Rules about effects."""

    def effect(self, token, key, intent, ticket, *, scope="dag", guarded_by=None):
        """An effect that wants to begin."""
        scopes = {"dag": f"dag:{self.dag}", "run": f"run:{self.dag}:{token.key.run_id}", "global": "global"}
        return EffectRequest(
            scope=scopes[scope],
            # The other scopes are the Dag's own; in this one all histories meet.
            key=f"{self.dag}-{key}" if scope == "global" else key,
            name="pay",
            intent=intent,
            intent_hash=intent_hash(intent),
            undo="model.undo",
            on_unknown=OnUnknown.MANUAL,
            provider_idempotent=True,
            guarded_by=guarded_by,
            lease_until=self.after(60),
            quiesce_seconds=30.0,
            ticket=f"ticket-{ticket}",
        )

    def begin(self, token, request):
        """The effect as the answer shows it; None where it was refused."""
        begun = self.ask("begin_effect", token, request, now=self.tick())
        return None if isinstance(begun, Refused) else begun.record

    def end(self, how, token, effect, value):
        """The effect afterwards; None where that was refused, or nothing came of it."""
        if how == "give_up_undo" and effect.kind is EffectKind.UNDO:
            return None
        given = {
            "commit_effect": lambda: self.ask(how, token, effect, value, now=self.tick()),
            "fail_effect": lambda: self.ask(how, token, effect, reason="no", now=self.tick()),
            "lose_effect": lambda: self.ask(how, effect, reason="dead", now=self.tick()),
            "retry_effect": lambda: self.ask(how, token, effect, lease_until=self.after(60), now=self.tick()),
            "keep_effect": lambda: self.ask(how, token, effect, lease_until=self.after(120)),
            "give_up_undo": lambda: self.ask(how, token, effect, reason="3 attempts", now=self.tick()),
            "settle_effect": lambda: self.ask(how, effect, undone=value is None, word=_WORD, now=self.tick()),
            "reopen_undo": lambda: self.ask(how, effect, word=_WORD, now=self.tick()),
            "renew_effect": lambda: self.ask(how, effect, word=_WORD, now=self.tick()),
        }
        answer = given[how]()
        return None if isinstance(answer, Refused) else answer

    @rule(
        target=EFFECTS,
        token=TOKENS,
        who=WHO,
        key=st.sampled_from(["pay", "ship"]),
        intent=INTENTS,
        ticket=TICKETS,
        scope=mostly("dag", "run", "global"),
        guarded_by=mostly(None, "act"),
        ends=st.lists(st.tuples(st.sampled_from((*_ENDS, _ANEW, _ANEW)), _WHICH), max_size=3),
        value=VALUES,
    )
    def begin_effect(self, token, who, key, intent, ticket, scope, guarded_by, ends, value):
        """Begin, and perhaps let the same process end it, more than once, or begin it anew."""
        token = self.speaker(token, who)
        request = self.effect(token, key, intent, ticket, scope=scope, guarded_by=guarded_by)
        shown = [self.begin(token, request)]
        for how, which in ends:
            if shown[which] is None:
                break
            if how == _ANEW:
                request = replace(request, ticket=f"{request.ticket} again")
                self.end("fail_effect", token, shown[-1], value)
                shown.append(self.begin(token, request) or shown[-1])
            else:
                shown.append(self.end(how, token, shown[which], value) or shown[-1])
        return multiple(*(effect for effect in shown if effect is not None))

    @rule(
        target=EFFECTS,
        token=TOKENS,
        effect=EFFECTS,
        who=WHO,
        how=st.sampled_from(_ENDS + _BY_PEOPLE),
        value=VALUES,
    )
    def end_effect(self, token, effect, who, how, value):
        """By whom it was begun; or by somebody who may be nobody any more."""
        ended = self.end(how, self.owner(token, effect, who), effect, value)
        self.ask("get_effect", effect.scope, effect.key)
        self.ask("load_effect", effect)
        return self.kept(ended)

    @rule(target=EFFECTS, token=TOKENS, effect=EFFECTS, who=WHO, ticket=TICKETS, commits=st.booleans())
    def undo_effect(self, token, effect, who, ticket, commits):
        if effect.kind is EffectKind.UNDO or effect.run_id != token.key.run_id:
            return multiple()
        token = self.speaker(token, who)
        request = replace(
            self.effect(token, f"undo:{effect.reference}", {"undo": 1}, ticket),
            scope=effect.scope,
            kind=EffectKind.UNDO,
            undo=None,
            undoes=effect.reference,
        )
        undo = self.begin(token, request)
        if undo is not None and commits:
            undo = self.end("commit_effect", token, undo, None) or undo
        return self.kept(undo)
