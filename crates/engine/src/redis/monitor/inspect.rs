//! The requests of a monitor to its node: INFO, a write probe, the clock, and the servers on it.
//!
//! They are sent on the monitor's own connection, and once on each new connection of a pipeline.

use redis::RedisResult;
use tokio::time::timeout;

use super::{
    super::{
        evaluate::{self, ProbeRequest, Probed},
        marker::{Marker, Settlement},
        preflight::Preflight,
        shared::Redirect,
        skew::Reading,
        socket::RedisSocket,
        source::CONNECT_TIMEOUT,
    },
    Monitor, PROBE_TIMEOUT, WARN_EVERY, lock,
};
use tollgate_core::{error::Error, time::monotonic};

/// A write is attempted with every third probe, so that a refusal is noticed within a second. While
/// Redis refuses writes, a write is attempted with each probe.
const WRITE_EVERY: u32 = 3;
/// The eviction policy is read with every twentieth probe: every 5 seconds.
const POLICY_EVERY: u32 = 20;
/// Servers are counted with the fourth of these twenty probes: one second after connecting, all
/// servers have subscribed, even after a restart of Redis.
const COUNT_AT: u32 = 4;

/// The connection of the probes.
pub(super) struct Probe {
    /// `None` before the first probe and after a failed one.
    pub(super) socket: Option<RedisSocket>,
    /// The monitor's epoch when the connection was made.
    pub(super) epoch: u64,
    /// Whether this is the first probe, whose result is always logged.
    pub(super) is_first: bool,
    /// The number of probes on this connection.
    pub(super) count: u32,
}

/// The result of a probe.
#[derive(Debug)]
pub(super) enum Inspection {
    /// The node can be used.
    Fit,
    /// The node answers, but refuses writes.
    Refuses(String),
    /// The node must not be used with its settings.
    Unfit(String),
}

impl Monitor {
    /// Probes the node: the id and role each time, and occasionally a write and the eviction
    /// policy.
    pub(super) async fn ask(&self, probe: &mut Probe) -> RedisResult<Inspection> {
        // A connection was lost since then, so the address may have changed.
        if probe.epoch != self.epoch() {
            probe.socket = None;
        }
        if let Some(socket) = &mut probe.socket {
            probe.count = probe.count.wrapping_add(1);
            match still_there(socket, probe.count.is_multiple_of(POLICY_EVERY)).await {
                Ok(preflight) => {
                    if let Some(why) = self.evaluate(preflight) {
                        return Ok(Inspection::Unfit(why));
                    }
                    if self.takes_writes() && !probe.count.is_multiple_of(WRITE_EVERY) {
                        return Ok(Inspection::Fit);
                    }
                    return self.try_write(socket, Settlement::None).await;
                }
                Err(error) if error.code().is_some() => return Err(error),
                // The connection broke, so connect again.
                Err(_) => self.record_loss(probe.epoch),
            }
        }
        let epoch = self.epoch();
        (probe.epoch, probe.count) = (epoch, 0);
        let (mut socket, preflight) = self.inspect(epoch).await?;
        if let Some(why) = self.evaluate(preflight) {
            return Ok(Inspection::Unfit(why));
        }
        let verdict = self.try_write(&mut socket, Settlement::None).await?;
        probe.socket = Some(socket);
        Ok(verdict)
    }

    /// Evaluates the answer to INFO. Returns the reason if the node must not be used.
    fn evaluate(&self, preflight: Preflight) -> Option<String> {
        if let Some(eviction) = preflight.eviction() {
            self.warn(&eviction);
        }
        let refusal = preflight.refusal(self.eviction);
        if refusal.is_none() {
            self.record_primary(preflight.leader);
        }
        refusal
    }

    /// Logs a warning, at most once in five minutes.
    fn warn(&self, why: &str) {
        let mut warned = lock(&self.warned);
        if warned.is_none_or(|last| last.elapsed() >= WARN_EVERY) {
            *warned = Some(monotonic());
            tracing::warn!("{why}");
        }
    }

    /// Connects and runs the preflight.
    async fn inspect(&self, epoch: u64) -> RedisResult<(RedisSocket, Preflight)> {
        let mut socket = self.source.connect(epoch, CONNECT_TIMEOUT).await?;
        match redis::cmd("INFO").query_async::<String>(&mut socket).await {
            Ok(info) => Ok((socket, Preflight::parse(&info))),
            // The user may not run INFO.
            Err(error) if error.code() == Some("NOPERM") => {
                tracing::warn!(%error, "cannot run the preflight of Redis: allow the user to \
                                        call INFO");
                Ok((socket, Preflight::default()))
            }
            Err(error) => Err(error),
        }
    }

    /// Inspects a new connection of a pipeline before a decision uses it, because it may lead to
    /// another primary whose clock is behind, or to a store that has lost its data. Returns why the
    /// node refuses writes, if it does. Fails if the connection fails.
    pub(in super::super) async fn greet(
        &self,
        socket: &mut RedisSocket,
    ) -> RedisResult<Option<String>> {
        let asked = async {
            let preflight = still_there(socket, false).await?;
            if self.evaluate(preflight).is_some() {
                return Ok(Inspection::Fit);
            }
            self.try_write(socket, Settlement::None).await
        };
        match asked.await {
            Ok(Inspection::Refuses(why)) => Ok(Some(why)),
            Ok(_) => Ok(None),
            // A node that refuses this also refuses every decision.
            Err(error) if error.code().is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Attempts a write, and reads the node's clock and the marker of the store.
    pub(super) async fn try_write(
        &self,
        socket: &mut RedisSocket,
        settlement: Settlement<'_>,
    ) -> RedisResult<Inspection> {
        let Some((key, marker_key)) = self.probe_key() else { return Ok(Inspection::Fit) };
        // A marker in a different slot than before continues the earlier one of the node.
        let markers = &self.shared.markers;
        let first = self.marker().map_or_else(|| markers.first(), |marker| marker.text.clone());
        let known = markers.known(&marker_key);
        // Repeated if this server by then knows a larger lead than it sent.
        loop {
            let (told, asked) = (self.known_ahead(), monotonic());
            let request = ProbeRequest {
                key: &key,
                ahead: told,
                marker_key: &marker_key,
                known: &known,
                first: &first,
                loss: markers.loss_state(),
                settlement,
            };
            let answer = match self.shared.scripts.probe(socket, &request).await {
                Ok(answer) => answer,
                Err(error) => match error.code() {
                    // The slot of the key has moved to another node.
                    Some("MOVED" | "ASK" | "TRYAGAIN") => {
                        self.forget_probe_key();
                        if let (Some(router), Some(redirect)) =
                            (self.shared.router(), Redirect::from_error(&error))
                        {
                            router.record_redirect(&redirect);
                        }
                        return Ok(Inspection::Fit);
                    }
                    Some(code) => Err(evaluate::refused(code, &error.to_string())),
                    None => return Err(error),
                },
            };
            let Probed { time, ahead, refusal, marker } = match answer {
                Ok(answer) => answer,
                Err(Error::Refused(why) | Error::Denied(why)) => {
                    return Ok(Inspection::Refuses(why));
                }
                Err(error) => {
                    tracing::debug!(%error, "the write probe has failed");
                    return Ok(Inspection::Fit);
                }
            };
            if !marker.is_empty() {
                self.record_marker(Marker { key: marker_key.clone(), text: marker });
            }
            let reading = Reading { time, asked, answered: monotonic() };
            let known = self.record_clock(&reading, ahead);
            match refusal {
                Some(Error::Refused(why)) => return Ok(Inspection::Refuses(why)),
                _ if known <= ahead => return Ok(Inspection::Fit),
                _ => {}
            }
        }
    }

    /// Returns the keys of the write probe and of the marker; `None` in a Cluster until the node's
    /// slots are known.
    fn probe_key(&self) -> Option<(String, String)> {
        let mut keys = lock(&self.probe_key);
        if keys.is_none() {
            let router = self.shared.router()?;
            let probe = router.probe_key(&self.source, &self.shared.probe_key)?;
            // Both end with the same hash tag.
            let tag = &probe[self.shared.probe_key.len()..];
            *keys = Some((probe.clone(), format!("{}{tag}", self.shared.marker_key)));
        }
        keys.clone()
    }

    fn forget_probe_key(&self) {
        *lock(&self.probe_key) = None;
    }

    /// Counts the servers on the node, every 5 seconds. Runs after a probe, outside its time limit,
    /// so that it does not change the state.
    pub(super) async fn count_servers(&self, probe: &mut Probe) {
        if let Some(socket) = &mut probe.socket
            && probe.count % POLICY_EVERY == COUNT_AT
        {
            let servers = self.shared.servers.count(socket).await;
            *lock(&self.servers) = servers;
        }
    }

    /// Runs the preflight. Returns the reason why the node must not be used. Also returns `None` if
    /// there is no answer within a second.
    pub(in super::super) async fn unfit(&self) -> Option<String> {
        let inspected = timeout(PROBE_TIMEOUT, self.inspect(self.epoch())).await;
        inspected.ok()?.ok()?.1.unfit(self.eviction)
    }
}

/// Asks for the id and the role, because the node may have become a replica, or have been one in
/// between. With `policy`, also asks for the eviction policy. Falls back to PING if INFO is not
/// permitted.
async fn still_there(socket: &mut RedisSocket, policy: bool) -> RedisResult<Preflight> {
    let mut info = String::new();
    for section in ["replication", "memory"].iter().take(1 + usize::from(policy)) {
        match redis::cmd("INFO").arg(section).query_async::<String>(socket).await {
            Ok(text) => info += &text,
            Err(error) if error.code() == Some("NOPERM") => {
                redis::cmd("PING").query_async::<()>(socket).await?;
                return Ok(Preflight::default());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Preflight::parse(&info))
}
