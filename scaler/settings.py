"""The scaler's section of the settings. Every default is a tested value."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from config.fields import Duration, Strict


class ScalerSettings(Strict):
    """How often it looks, how long it waits, and where it stops by itself."""

    tick: Duration = timedelta(seconds=15)
    """how often pending pods are looked at"""
    join_deadline: Duration = timedelta(minutes=15)
    """a machine that is not a ready node after this long is ended"""
    gpu_deadline: Duration = timedelta(minutes=10)
    """a ready node whose GPUs have not appeared after this long is ended"""
    idle_after: Duration = timedelta(minutes=2)
    """idle time (not age) after which a node of ours is cordoned"""
    shrink_fraction: float = Field(default=0.1, gt=0, le=1)
    """share of our nodes that may be ended in one tick, at least one: a rate limit, not a veto"""
    scheduler_patience: Duration = timedelta(minutes=1)
    """how long we believe that a pod fits an existing node although the scheduler says no"""
    capacity_memory: Duration = timedelta(minutes=3)
    """how long an offer without capacity is left alone, doubling"""
    capacity_memory_max: Duration = timedelta(hours=2)
    """where the doubling ends"""
    offering_memory: Duration = timedelta(hours=12)
    """how long an offer that does not exist there is left alone"""
    quota_memory: Duration = timedelta(minutes=30)
    """how long a family without quota is left alone in its region"""
    subnet_memory: Duration = timedelta(minutes=10)
    """how long a subnet without addresses is left alone"""
    refused_memory: Duration = timedelta(minutes=10)
    """how long nothing is bought from a pool whose credentials or configuration were refused"""
    throttle_wait: Duration = timedelta(seconds=5)
    """how long a throttled call is not repeated"""
    launches_without_progress: int = Field(default=3, ge=1)
    """purchases for the same kind of pod that none of them helped to start, before it stops and tells"""
    gpu_waste: int = Field(default=8, ge=1)
    """a machine may have this many times the GPUs that are used on it"""
    batch: int = Field(default=100, ge=1, le=1000)
    """machines a purchase at most"""
    describe_every: Duration = timedelta(minutes=1)
    """how often the providers are asked for our machines while some live"""
