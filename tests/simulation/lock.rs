//! A model of locks: one holder at a time, and tokens that grow.

use std::sync::Arc;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use tollgate_core::{
    lock::{AcquireLock, Acquisition, GetLock, LockView, Release, ReleaseLock, RenewLock, Renewal},
    time::Millis,
};
use tollgate_engine::Engine;

use crate::capability::{Answering, Capability, Checked, Part, deadline, holds, name, text};

/// Time during which a release can be repeated, in µs.
const RETENTION: u64 = 300_000_000;

#[derive(Debug, Clone)]
pub enum Ask {
    Acquire { owner: u8, length: u64 },
    Renew { owner: u8, token: Option<u64>, length: Option<u64> },
    Release { owner: u8, token: Option<u64> },
    Get,
}

#[derive(Debug, Clone)]
pub enum Answer {
    Acquired(Acquisition),
    Renewed(Renewal),
    Released(Release),
    View(LockView),
}

/// The last granted lease.
#[derive(Debug, Clone)]
struct Tenure {
    owner: u8,
    token: u64,
    expire: u64,
    length: u64,
    is_released: bool,
}

#[derive(Debug, Clone)]
pub struct Lock {
    part: Part,
    last: Option<Tenure>,
}

impl Lock {
    fn holder(&self, now: u64) -> Option<&Tenure> {
        self.last.as_ref().filter(|last| !last.is_released && now < last.expire)
    }

    fn held_by(&self, owner: u8, token: Option<u64>, now: u64) -> bool {
        self.holder(now).is_some_and(|held| {
            held.owner == owner && token.is_none_or(|token| token == held.token)
        })
    }

    fn acquired(&mut self, owner: u8, length: u64, answer: &Acquisition, now: u64) -> Checked {
        let held = self.holder(now);
        match answer {
            Acquisition::Acquired { lease, replayed: true } => {
                let known = held.map(|held| (held.owner, held.token, held.expire));
                holds(
                    known == Some((owner, lease.token, lease.expire.0)),
                    "a repeat gets the same lease",
                )
            }
            Acquisition::Acquired { lease, replayed: false } => {
                holds(held.is_none(), "one holder at a time")?;
                let last = self.last.as_ref().map_or(0, |last| last.token);
                holds(lease.token > last, "tokens grow")?;
                let (token, expire) = (lease.token, lease.expire.0);
                holds(expire == now + length * 1000, "the lease has the requested length")?;
                self.last = Some(Tenure { owner, token, expire, length, is_released: false });
                Ok(())
            }
            Acquisition::Held { holder, retry_after, .. } => {
                let other = held
                    .filter(|held| held.owner != owner)
                    .ok_or("HELD only while another owner holds the lock")?;
                holds(**holder == *text('o', other.owner).as_bytes(), "HELD names the holder")?;
                let wait = (other.expire - now).div_ceil(1000);
                holds(retry_after.0 == wait, "retry_after lasts until the end of the lease")
            }
        }
    }

    fn renewed(
        &mut self,
        ask: (u8, Option<u64>, Option<u64>),
        answer: Renewal,
        now: u64,
    ) -> Checked {
        let (owner, token, length) = ask;
        let is_held = self.held_by(owner, token, now);
        match (answer, &mut self.last) {
            (Renewal::Renewed(lease), Some(last)) => {
                holds(is_held && lease.token == last.token, "only the holder renews")?;
                last.length = length.unwrap_or(last.length);
                last.expire = lease.expire.0;
                holds(last.expire == now + last.length * 1000, "the lease has the requested length")
            }
            _ => holds(!is_held, "the holder can renew"),
        }
    }

    fn released(&mut self, owner: u8, token: Option<u64>, answer: Release, now: u64) -> Checked {
        let is_held = self.held_by(owner, token, now);
        let is_repeat = self.last.as_ref().is_some_and(|last| {
            let is_same = last.owner == owner && token.is_none_or(|token| token == last.token);
            last.is_released && is_same && now < last.expire + RETENTION
        });
        holds(
            (answer == Release::Released) == (is_held || is_repeat),
            "RELEASED exactly for the holder and its repeats",
        )?;
        if let Some(last) = self.last.as_mut().filter(|_| is_held) {
            (last.is_released, last.expire) = (true, now);
        }
        Ok(())
    }
}

impl Capability for Lock {
    type Ask = Ask;
    type Answer = Answer;

    fn new(part: Part) -> Lock {
        Lock { part, last: None }
    }

    fn part(&self) -> Part {
        self.part
    }

    fn ask(&mut self, random: &mut ChaCha8Rng, _: u64) -> Ask {
        let last = self.last.as_ref().filter(|_| random.random_bool(0.6));
        let owner = last.map_or(random.random_range(0..4), |last| last.owner);
        let token = self.last.as_ref().map(|last| last.token).filter(|_| random.random_bool(0.5));
        let length = [50, 400, 3000, 60_000, 7_200_000][random.random_range(0..5)];
        match random.random_range(0..10) {
            0..4 => Ask::Acquire { owner: random.random_range(0..4), length },
            4..6 => Ask::Renew { owner, token, length: Some(length).filter(|l| *l != 3000) },
            6..9 => Ask::Release { owner, token },
            _ => Ask::Get,
        }
    }

    fn reads(&self) -> Vec<Ask> {
        vec![Ask::Get]
    }

    fn run(part: Part, ask: Ask, engine: Arc<Engine>) -> Answering<Answer> {
        let lock = name(&part.text('l'));
        let of = |owner: u8| name(&text('o', owner));
        Box::pin(async move {
            Ok(match ask {
                Ask::Acquire { owner, length } => {
                    let (owner, lease_duration) = (of(owner), Millis(length));
                    let acquire = AcquireLock { name: lock, owner, lease_duration, waiting: None };
                    Answer::Acquired(engine.submit(&acquire, deadline()).await?.outcome)
                }
                Ask::Renew { owner, token, length } => {
                    let (owner, lease_duration) = (of(owner), length.map(Millis));
                    let renew = RenewLock { name: lock, owner, token, lease_duration };
                    Answer::Renewed(engine.submit(&renew, deadline()).await?.outcome)
                }
                Ask::Release { owner, token } => {
                    let release = ReleaseLock { name: lock, owner: of(owner), token };
                    Answer::Released(engine.submit(&release, deadline()).await?.outcome)
                }
                Ask::Get => {
                    Answer::View(engine.submit(&GetLock { name: lock }, deadline()).await?.outcome)
                }
            })
        })
    }

    fn check(&mut self, ask: &Ask, answer: &Answer, now: u64) -> Checked {
        match (ask, answer) {
            (Ask::Acquire { owner, length }, Answer::Acquired(answer)) => {
                self.acquired(*owner, *length, answer, now)
            }
            (Ask::Renew { owner, token, length }, Answer::Renewed(answer)) => {
                self.renewed((*owner, *token, *length), *answer, now)
            }
            (Ask::Release { owner, token }, Answer::Released(answer)) => {
                self.released(*owner, *token, *answer, now)
            }
            (_, Answer::View(view)) => {
                let known = self.holder(now).map(|held| (held.token, held.expire));
                let seen = view.holder.as_ref().map(|held| (held.lease.token, held.lease.expire.0));
                holds(known == seen, "the view has the current lease")
            }
            _ => Err("the answer belongs to the call"),
        }
    }

    fn is_change(answer: &Answer) -> bool {
        matches!(
            answer,
            Answer::Acquired(Acquisition::Acquired { replayed: false, .. })
                | Answer::Renewed(Renewal::Renewed(_))
        )
    }
}
