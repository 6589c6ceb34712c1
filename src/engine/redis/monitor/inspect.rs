//! What a monitor asks a node, on its own connection and on each new one of the lanes.

use redis::{RedisResult, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::{
    super::{
        evaluate::{self, Probed},
        fitness::Fitness,
        skew::Reading,
    },
    Monitor, PROBE_TIMEOUT, WARN_EVERY, lock,
};
use crate::{error::Error, time::monotonic};

/// A write is tried with every so manieth probe: each second.
const WRITE_EVERY: u32 = 4;
/// Redis is asked whether it may forget with every so manieth probe: each 5 seconds.
const POLICY_EVERY: u32 = 20;

/// The connection that probes go over.
pub(super) struct Probe {
    pub(super) socket: Option<MultiplexedConnection>,
    pub(super) epoch: u64,
    /// The first state is told even if it is down.
    pub(super) is_first: bool,
    /// Probes over this connection.
    pub(super) count: u32,
}

/// What a probe found.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It can be used.
    Fit,
    /// It answers, and takes no writes.
    Refuses(String),
    /// It must not be used as it is set up.
    Unfit(String),
}

impl Monitor {
    /// Asks whether it is there, and who it is; now and then also whether it takes writes
    /// and whether it may forget.
    pub(super) async fn ask(&self, probe: &mut Probe) -> RedisResult<Verdict> {
        if probe.epoch != self.epoch() {
            probe.socket = None;
        }
        if let Some(socket) = &mut probe.socket {
            probe.count = probe.count.wrapping_add(1);
            match still_there(socket, probe.count.is_multiple_of(POLICY_EVERY)).await {
                Ok(fitness) => {
                    if let Some(why) = self.note(fitness) {
                        return Ok(Verdict::Unfit(why));
                    }
                    if self.takes_writes() && !probe.count.is_multiple_of(WRITE_EVERY) {
                        return Ok(Verdict::Fit);
                    }
                    return self.try_write(socket).await;
                }
                Err(error) if error.code().is_some() => return Err(error),
                // Broken: what is there now?
                Err(_) => self.note_loss(probe.epoch),
            }
        }
        let epoch = self.epoch();
        (probe.epoch, probe.count) = (epoch, 0);
        let (mut socket, fitness) = self.inspect(epoch).await?;
        if let Some(why) = self.note(fitness) {
            return Ok(Verdict::Unfit(why));
        }
        let verdict = self.try_write(&mut socket).await?;
        probe.socket = Some(socket);
        Ok(verdict)
    }

    /// Notes what a node says of itself; why it must not be used, if so.
    fn note(&self, fitness: Fitness) -> Option<String> {
        if let Some(eviction) = fitness.eviction() {
            self.warn(&eviction);
        }
        let refusal = fitness.refusal(self.eviction);
        if refusal.is_none() {
            self.note_leader(fitness.leader);
        }
        refusal
    }

    /// Warns of what is wrong, but goes on; not over and over.
    fn warn(&self, why: &str) {
        let mut warned = lock(&self.warned);
        if warned.is_none_or(|last| last.elapsed() >= WARN_EVERY) {
            *warned = Some(monotonic());
            tracing::warn!("{why}");
        }
    }

    /// Connects, and asks what it is connected to.
    async fn inspect(&self, epoch: u64) -> RedisResult<(MultiplexedConnection, Fitness)> {
        let mut socket = self.source.connect(epoch).await?;
        match redis::cmd("INFO").query_async::<String>(&mut socket).await {
            Ok(info) => Ok((socket, Fitness::parse(&info))),
            // Our user may not ask.
            Err(error) if error.code() == Some("NOPERM") => {
                tracing::warn!(%error, "cannot see whether this Redis is fit: allow INFO");
                Ok((socket, Fitness::default()))
            }
            Err(error) => Err(error),
        }
    }

    /// Asks a new connection of a lane who it leads to, before any decision goes over it:
    /// another primary's clock may be behind. Fails where the connection does.
    pub(in super::super) async fn greet(
        &self,
        socket: &mut MultiplexedConnection,
    ) -> RedisResult<()> {
        let asked = async {
            let fitness = still_there(socket, false).await?;
            if self.note(fitness).is_none() {
                self.try_write(socket).await?;
            }
            RedisResult::Ok(())
        };
        match timeout(PROBE_TIMEOUT, asked).await {
            // What the node refuses it refuses each decision, too.
            Ok(Err(error)) if error.code().is_some() => Ok(()),
            Ok(result) => result,
            Err(_) => Err((redis::ErrorKind::Io, "a new connection is silent").into()),
        }
    }

    /// Tries a write, and reads the node's clock.
    async fn try_write(&self, socket: &mut MultiplexedConnection) -> RedisResult<Verdict> {
        let Some(key) = self.probe_key() else { return Ok(Verdict::Fit) };
        // Once more where this server knows of more than it has said.
        loop {
            let (told, asked) = (self.known_ahead(), monotonic());
            let answer = match self.shared.scripts.probe(socket, &key, told).await {
                Ok(answer) => answer,
                Err(error) => match error.code() {
                    // Its slot is another node's now.
                    Some("MOVED" | "ASK" | "TRYAGAIN") => {
                        self.forget_probe_key();
                        return Ok(Verdict::Fit);
                    }
                    Some(code) => Err(evaluate::refused(code, error.to_string())),
                    None => return Err(error),
                },
            };
            let Probed { time, ahead, refusal } = match answer {
                Ok(answer) => answer,
                Err(Error::Refused(why)) => return Ok(Verdict::Refuses(why)),
                Err(error) => {
                    tracing::debug!(%error, "a probe was not answered");
                    return Ok(Verdict::Fit);
                }
            };
            let reading = Reading { time, asked, answered: monotonic() };
            let known = self.note_clock(&reading, ahead);
            match refusal {
                Some(Error::Refused(why)) => return Ok(Verdict::Refuses(why)),
                _ if known <= ahead => return Ok(Verdict::Fit),
                _ => {}
            }
        }
    }

    /// Why the node must not be used as it is set up; none where it does not answer soon.
    pub(in super::super) async fn unfit(&self) -> Option<String> {
        let inspected = timeout(PROBE_TIMEOUT, self.inspect(self.epoch())).await;
        inspected.ok()?.ok()?.1.unfit(self.eviction)
    }
}

/// Asks a node that was asked before who it is: it may follow another one now, or have done
/// so since; and, if `policy`, whether it may forget.
async fn still_there(socket: &mut MultiplexedConnection, policy: bool) -> RedisResult<Fitness> {
    let mut info = String::new();
    for section in ["replication", "memory"].iter().take(1 + usize::from(policy)) {
        match redis::cmd("INFO").arg(section).query_async::<String>(socket).await {
            Ok(text) => info += &text,
            Err(error) if error.code() == Some("NOPERM") => {
                redis::cmd("PING").query_async::<()>(socket).await?;
                return Ok(Fitness::default());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Fitness::parse(&info))
}
