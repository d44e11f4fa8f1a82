"""All stories, by name."""

from __future__ import annotations

from crash.hand_stories import Accepting, Commands, Emptying, Reconciling, Sharing
from crash.order_stories import Dearer, Expired, Order, Rejected, Undoing
from crash.people_stories import Cleaning, Renewed, Settled, UndoneAfterAll
from crash.run_stories import Event, NotUndone, PerformingAgain, Retrying, Stopped, Walking
from crash.story import Story

__all__ = ["STORIES"]

STORIES: dict[str, Story] = {
    story.name: story
    for story in (
        Order(),
        Undoing(),
        Rejected(),
        Expired(),
        Dearer(),
        Retrying(),
        PerformingAgain(),
        NotUndone(),
        Walking(),
        Stopped(),
        Event(),
        Commands(),
        Emptying(),
        Reconciling(),
        Settled(),
        UndoneAfterAll(),
        Renewed(),
        Cleaning(),
        Sharing(),
        Accepting(),
    )
}
