//! The connections to the servers: round robin among the healthy ones.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{Error, clock::Moment, error::TLS_MISMATCH, server::Server};

/// Interval of the health checks of each server, and the timeout of each check.
const CHECK: Duration = Duration::from_secs(1);
/// Time without any answer after which the connection is replaced, from one unanswered attempt to
/// the next.
const SILENT_MAX: Duration = Duration::from_millis(500);

/// The reason in the error of a call that waited on a server which is shutting down.
const SERVER_ENDING: &str = "SERVER_ENDING";

/// One connection to each server.
pub(crate) struct Channels {
    members: Box<[Member]>,
    /// The health of each server, for all connections to it.
    servers: Arc<[Server]>,
    next: AtomicUsize,
    closed: AtomicBool,
}

struct Member {
    endpoint: Endpoint,
    channel: Mutex<Channel>,
    /// When the first of the consecutive unanswered attempts ended.
    silent: Mutex<Option<Moment>>,
}

/// The connection of an attempt.
pub(crate) struct Picked<'a> {
    channels: &'a Channels,
    index: usize,
}

impl Channels {
    /// Creates connections that are opened when they are needed.
    pub(crate) fn lazy(endpoints: &[Endpoint]) -> Channels {
        let opened = endpoints.iter().map(|endpoint| (endpoint.clone(), endpoint.connect_lazy()));
        Channels::new(opened.collect())
    }

    pub(crate) fn new(channels: Vec<(Endpoint, Channel)>) -> Channels {
        let servers = channels.iter().map(|_| Server::new()).collect();
        let member = |(endpoint, channel)| Member {
            endpoint,
            channel: Mutex::new(channel),
            silent: Mutex::new(None),
        };
        let members = channels.into_iter().map(member).collect();
        Channels { members, servers, next: AtomicUsize::new(0), closed: AtomicBool::new(false) }
    }

    /// Creates further connections to the same servers.
    pub(crate) fn again(&self) -> Channels {
        let endpoints: Vec<Endpoint> = self.members.iter().map(|it| it.endpoint.clone()).collect();
        Channels { servers: self.servers.clone(), ..Channels::lazy(&endpoints) }
    }

    /// Picks the next usable server; any server if none is usable.
    pub(crate) fn pick(&self) -> Picked<'_> {
        let count = self.members.len();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let usable = (0..count)
            .map(|step| first.wrapping_add(step) % count)
            .find(|index| self.servers[*index].is_usable());
        Picked { channels: self, index: usable.unwrap_or(first % count) }
    }

    /// A server was unreachable when the connection was opened.
    pub(crate) fn unreachable(&self, index: usize) {
        Picked { channels: self, index }.unreachable();
    }

    /// Closes the connections when their last call has ended.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        // A new connection needs a runtime. Without one, the old ones end when they are dropped.
        if Handle::try_current().is_ok() {
            for member in &self.members {
                *locked(&member.channel) = member.endpoint.connect_lazy();
            }
        }
    }

    /// Checks the health of the servers until the connections are closed or dropped.
    pub(crate) fn watch(this: &Arc<Channels>) {
        if this.members.len() < 2 {
            return;
        }
        for index in 0..this.members.len() {
            tokio::spawn(check(Arc::downgrade(this), index));
        }
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers = self.members.iter().map(|member| member.endpoint.uri().to_string());
        f.debug_list().entries(servers).finish()
    }
}

impl Picked<'_> {
    pub(crate) fn channel(&self) -> Channel {
        locked(&self.channels.members[self.index].channel).clone()
    }

    fn server(&self) -> &Server {
        &self.channels.servers[self.index]
    }

    /// Fails during the pause after a call to a server that uses the other protocol.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.server().refusal().map_or(Ok(()), Err)
    }

    /// Records an error of a call, which shows the state of the server.
    pub(crate) fn failed(&self, error: &Error) {
        match error.code {
            _ if error.reason == TLS_MISMATCH => self.server().refused(error),
            "UNAVAILABLE" if error.retry_after.is_none() => self.unreachable(),
            _ if error.reason == SERVER_ENDING => self.unreachable(),
            _ if error.is_own_deadline() => self.silent(),
            _ => self.answered(),
        }
    }

    /// Records that the server answered.
    pub(crate) fn answered(&self) {
        self.server().answered();
        *locked(&self.channels.members[self.index].silent) = None;
    }

    /// Records that the server is unreachable or is shutting down. It gets no calls until it is
    /// healthy again.
    pub(crate) fn unreachable(&self) {
        if self.channels.members.len() > 1 {
            self.server().set_healthy(false);
        }
    }

    /// Records that no answer arrived in time. If there are several servers, one that hangs gets no
    /// calls until it is healthy again. The connection may be dead: it is replaced after further
    /// such attempts.
    pub(crate) fn silent(&self) {
        if self.server().is_hanging() {
            self.unreachable();
        }
        let member = &self.channels.members[self.index];
        let mut silent = locked(&member.silent);
        match *silent {
            Some(since) if since.elapsed() >= SILENT_MAX => {
                *silent = None;
                *locked(&member.channel) = member.endpoint.connect_lazy();
            }
            Some(_) => {}
            None => *silent = Some(Moment::now()),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks the health of one server repeatedly. Health checks need no token.
async fn check(channels: Weak<Channels>, index: usize) {
    loop {
        sleep(CHECK).await;
        let Some(channels) = channels.upgrade() else { return };
        if channels.closed.load(Ordering::Relaxed) {
            return;
        }
        let picked = Picked { channels: &channels, index };
        if picked.check().is_err() {
            continue;
        }
        let mut client = HealthClient::new(picked.channel());
        let answer = timeout(CHECK, client.check(HealthCheckRequest::default())).await;
        let is_serving = match answer {
            Ok(answer) => {
                answer.is_ok_and(|answer| answer.get_ref().status() == ServingStatus::Serving)
            }
            Err(_) => {
                picked.silent();
                false
            }
        };
        channels.servers[index].set_healthy(is_serving);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Channels {
        let endpoint = |port| Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
        Channels::lazy(&[endpoint(1), endpoint(2), endpoint(3)])
    }

    #[tokio::test]
    async fn servers_are_picked_in_turn_and_unhealthy_ones_are_skipped() {
        let channels = three();
        let picks = |count| (0..count).map(|_| channels.pick().index).collect::<Vec<_>>();
        assert_eq!(picks(4), [0, 1, 2, 0]);
        Picked { channels: &channels, index: 1 }.unreachable();
        assert!(!picks(6).contains(&1));
        for index in [0, 2] {
            Picked { channels: &channels, index }.unreachable();
        }
        assert!(picks(3).contains(&1), "any of the unhealthy ones");
        assert!(!channels.again().servers[1].is_usable(), "the health is shared");
    }

    #[tokio::test]
    async fn j26_a_server_that_hangs_is_skipped_until_a_health_check_succeeds() {
        let channels = three();
        let hanging = Picked { channels: &channels, index: 1 };
        hanging.silent();
        hanging.answered();
        hanging.silent();
        assert!(channels.servers[1].is_usable(), "only consecutive deadlines count");
        hanging.silent();
        assert!((0..6).all(|_| channels.pick().index != 1));
        channels.servers[1].set_healthy(true);
        hanging.silent();
        assert!((0..3).any(|_| channels.pick().index == 1));
        let alone = Channels::lazy(&[Endpoint::from_static("http://127.0.0.1:1")]);
        (0..3).for_each(|_| alone.pick().silent());
        assert!(alone.servers[0].is_usable());
    }

    #[tokio::test]
    async fn j25_a_server_with_the_other_protocol_gets_no_calls_for_a_while() {
        let channels = three();
        let other = Picked { channels: &channels, index: 1 };
        other.failed(&Error { reason: TLS_MISMATCH.to_owned(), ..Error::default() });
        assert!((0..6).all(|_| channels.pick().index != 1));
        assert_eq!(other.check().unwrap_err().reason, TLS_MISMATCH);
        other.answered();
        assert_eq!(other.check(), Ok(()));
    }
}
