//! The write probe of a node (`lua/index/probe.lua`).

use redis::{RedisResult, Value};

use super::{
    super::{marker::Settlement, socket::RedisSocket},
    Prepared, RELOADS_MAX, Scripts, failed, forgotten, replies,
};
use tollgate_core::{error::Error, script, statuses, unknown_status};

statuses! { PROBE_WRITTEN = 0, PROBE_REFUSED = 1 }

/// The request of a write probe.
#[derive(Debug)]
pub(in super::super) struct ProbeRequest<'a> {
    /// The probe key.
    pub(in super::super) key: &'a str,
    /// The token lead that this server knows, in µs.
    pub(in super::super) ahead: u64,
    /// The marker key.
    pub(in super::super) marker_key: &'a str,
    /// The id of the marker that this server has seen; empty for none.
    pub(in super::super) known: &'a str,
    /// The marker to write if the store has none and the server has seen none.
    pub(in super::super) first: &'a str,
    /// The state to write after a loss.
    pub(in super::super) loss: &'static str,
    pub(in super::super) settlement: Settlement<'a>,
}

/// The result of a write probe.
#[derive(Debug)]
pub(in super::super) struct Probed {
    /// The clock of the node, in µs.
    pub(in super::super) time: u64,
    /// The token lead over that clock as any server knows it, in µs.
    pub(in super::super) ahead: u64,
    /// The reason if the node refuses writes.
    pub(in super::super) refusal: Option<Error>,
    /// The marker of the store; empty if it could not be written.
    pub(in super::super) marker: String,
}

impl Scripts {
    /// Tries to write the probe key, reads the node's clock, and reads or writes the marker of the
    /// store.
    pub(in super::super) async fn probe(
        &self,
        socket: &mut RedisSocket,
        request: &ProbeRequest<'_>,
    ) -> RedisResult<Result<Probed, Error>> {
        let Prepared { text, sha1, .. } = &self.prepared[script::index::PROBE.index];
        let mut call = redis::cmd("EVALSHA");
        let (settle, first) = match request.settlement {
            Settlement::None => ("", request.first),
            Settlement::Accepted => ("accept", request.first),
            Settlement::Imported(marker) => ("import", marker),
        };
        call.arg(sha1).arg(2).arg(request.key).arg(request.marker_key).arg(request.ahead);
        call.arg(request.known).arg(first).arg(request.loss).arg(settle);
        let mut reply = call.query_async::<Value>(socket).await;
        for _ in 0..RELOADS_MAX {
            if !reply.as_ref().is_err_and(forgotten) {
                break;
            }
            // Sent in one write, because Redis may forget the script again at any time.
            let load = redis::cmd("SCRIPT").arg("LOAD").arg(text).to_owned();
            let mut replies = socket.exchange(&[load, call.clone()]).await?.into_iter();
            // Fails if Redis refuses to load it.
            replies.next().transpose()?;
            reply = replies.next().unwrap_or(reply);
        }
        let value = reply?;
        let read = || {
            let mut replies = replies(&script::index::PROBE, value, 1)?;
            let none = || Err(Error::Corrupt("a probe without a reply".to_owned()));
            let mut reply = replies.pop().unwrap_or_else(none)?;
            let status = reply.number()?;
            let (time, ahead) = (reply.number()?, reply.number()?);
            let marker = String::from_utf8_lossy(&reply.bytes()?).into_owned();
            let refusal = match status {
                PROBE_WRITTEN => None,
                PROBE_REFUSED => Some(failed(&String::from_utf8_lossy(&reply.bytes()?))),
                status => return unknown_status(status),
            };
            Ok(Probed { time, ahead, refusal, marker })
        };
        Ok(read())
    }
}
