"""Tasks that park to ask a person, the answers, and the effects that these allow."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import multiple, rule

from louver.approvals import Answer
from louver.ledger.names import Decision
from louver.ledger.requests import ApprovalRequest
from support.histories.effects import Effects, intent_hash
from support.histories.values import (
    EFFECTS,
    INTENTS,
    LAUNCHED,
    PARKED,
    PLACES,
    REQUESTS,
    RESUMED,
    TICKETS,
    TOKENS,
    WHO,
    mostly,
)
from support.side_by_side import Refused

__all__ = ["Approvals"]

_NUMBERS = st.integers(0, 5)
_ANCESTORS = st.sampled_from([(), ("look",)])


class Approvals(Effects):
    """Rules about approvals."""

    def ask_people(self, token, change, number, intent, *, ancestors=(), four_eyes=False, expires=None):
        """Park, and return the request; None where that was refused."""
        request = ApprovalRequest(
            request_id=f"{self.dag}-{number}",
            of="act",
            payload=intent,
            payload_fingerprint=intent_hash(intent),
            ancestors=ancestors,
            approvers=("ann", "bob"),
            four_eyes=four_eyes,
            expires_at=None if expires is None else self.after(expires),
        )
        parked = self.ask("park", token, change, nonce=f"nonce-{number}", request=request, now=self.tick())
        return None if isinstance(parked, Refused) else parked[0]

    @rule(
        target=REQUESTS,
        token=TOKENS,
        who=WHO,
        change=mostly(PARKED, LAUNCHED),
        number=_NUMBERS,
        intent=INTENTS,
        ancestors=_ANCESTORS,
        four_eyes=st.booleans(),
        expires=mostly(None, 0.0, 60.0),
    )
    def park(self, token, who, change, number, intent, ancestors, four_eyes, expires):
        asked = self.ask_people(
            self.speaker(token, who),
            change,
            number,
            intent,
            ancestors=ancestors,
            four_eyes=four_eyes,
            expires=expires,
        )
        return self.kept(asked)

    @rule(
        request=REQUESTS,
        decision=mostly(Decision.APPROVED, Decision.REJECTED, None),
        by=mostly("bob", "ann", "eve", None),
    )
    def decide_approval(self, request, decision, by):
        if decision is None:
            self.ask("expire_approval", request.request_id, now=self.tick())
        else:
            answer = Answer(decision=decision, by=by)
            self.ask("decide_approval", request.request_id, answer, now=self.tick())
        self.ask("load_approval", request)

    @rule(
        target=EFFECTS,
        place=PLACES,
        number=_NUMBERS,
        ancestors=_ANCESTORS,
        expires=mostly(None, 0.0, 60.0),
        key=st.sampled_from(["pay", "ship"]),
        intent=INTENTS,
        ticket=TICKETS,
    )
    def act_by_approval(self, place, number, ancestors, expires, key, intent, ticket):
        """Ask, be allowed, go on and act, without a pause."""
        token = self.held(place)
        asked = token and self.ask_people(
            token, PARKED, number, {"amount": 5}, ancestors=ancestors, expires=expires
        )
        if not asked:
            return multiple()
        yes = Answer(decision=Decision.APPROVED, by="bob")
        self.ask("decide_approval", asked.request_id, yes, now=self.tick())
        token = self.open(place, steps=0, nonce=f"nonce-{number}")
        if token is None:
            return multiple()
        self.ask("advance", token, RESUMED, now=self.tick())
        return self.kept(self.begin(token, self.effect(token, key, intent, ticket, guarded_by="act")))
