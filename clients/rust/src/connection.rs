//! The connection to the servers, and how a call is made.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::timeout;
use tonic::{
    Request, Response, Status,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};

use crate::{
    Access, Error, Options, Pool,
    calls::Call,
    channels::{Channels, Picked},
    check_log::CheckLog,
    claims::Claims,
    clock::Moment,
    closing::Closing,
    keeper::Keeper,
    lanes::{LanePlace, Lanes},
    random,
    retry::{self, ATTEMPTS, Tokens},
    token::{self, TokenSource},
    turns::Turns,
};

/// Metadata that selects one of a caller's namespaces.
const NAMESPACE: &str = "x-tollgate-namespace";
/// Mean pause before a waiting call is repeated.
const WAITING_PAUSE: Duration = Duration::from_millis(300);
/// Fraction of a deadline after which a dropped call counts as unanswered.
const NEARLY: f32 = 0.95;

/// A connection to one or several servers. Clones share it. It reconnects when it is interrupted.
#[derive(Debug, Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    main: Arc<Channels>,
    lanes: Lanes,
    turns: Turns,
    tokens: Tokens,
    token: TokenSource,
    namespace: Option<MetadataValue<Ascii>>,
    keeper: Keeper,
    closing: Closing,
    checks: CheckLog,
    claims: Claims,
    /// Number of attempts.
    sent: AtomicU64,
}

/// An answer, and the moment just before its request was sent.
pub(crate) struct Answered<T> {
    pub(crate) answer: T,
    pub(crate) sent: Moment,
}

/// An attempt that has no answer yet.
struct Pending<'a> {
    picked: Option<Picked<'a>>,
    sent: Moment,
    deadline: Duration,
}

impl Drop for Pending<'_> {
    /// A limiter that decides after one deadline drops the call just before its own.
    fn drop(&mut self) {
        let is_late = self.sent.elapsed() >= self.deadline.mul_f32(NEARLY);
        if let Some(picked) = self.picked.take().filter(|_| is_late) {
            picked.silent();
        }
    }
}

impl Connection {
    /// Connects to a server such as `http://127.0.0.1:50051`. Fails if the URL is invalid or the
    /// server is unreachable. [`Options`] has more servers, deadlines, tokens and retries.
    pub async fn open(url: &str) -> Result<Connection, Error> {
        Options::new([url]).open().await
    }

    /// Connects with these certificates and this token; a URL with `https` uses TLS. Fails if the
    /// URL or a file is invalid, or if the server is unreachable.
    pub async fn open_with(url: &str, access: &Access) -> Result<Connection, Error> {
        Options::new([url]).access(access.clone()).open().await
    }

    pub(crate) fn new(options: Options, main: Channels) -> Result<Connection, Error> {
        let namespace = options.given_namespace().map(|name| {
            token::header(name).ok_or_else(|| Error::bad_field("namespace", token::PRINTABLE))
        });
        let main = Arc::new(main);
        let shared = Shared {
            token: TokenSource::new(options.given_token())?,
            namespace: namespace.transpose()?,
            turns: Turns::default(),
            tokens: Tokens::new(options.retries),
            lanes: Lanes::default(),
            keeper: Keeper::default(),
            closing: Closing::default(),
            checks: CheckLog::default(),
            claims: Claims::default(),
            sent: AtomicU64::new(0),
            main: main.clone(),
            options,
        };
        Channels::watch(&main);
        Ok(Connection { shared: Arc::new(shared) })
    }

    /// Opens a new connection with the same options. A host may resolve to another address now, and
    /// certificates and the token are read again.
    pub async fn reopen(&self) -> Result<Connection, Error> {
        self.shared.options.clone().open().await
    }

    /// Closes the connection and its clones. Running and later calls fail with CANCELLED; waits and
    /// streams of events end; keepers stop, so that leases end by themselves. Permits and locks
    /// that are still held report their loss as usual.
    pub fn close(&self) {
        self.shared.closing.close();
        self.shared.lanes.close();
        self.shared.main.close();
    }

    /// Returns the pool of this name.
    pub fn pool(&self, name: &str) -> Pool {
        Pool::new(self.clone(), name)
    }

    /// Returns the number of requests that were sent, repeats and renewals included.
    pub fn requests_sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Makes a call with a message of the contract. Repeats it within the retry budget, if it is
    /// safe to repeat.
    pub async fn call<M: Call>(&self, message: M) -> Result<M::Answer, Error> {
        Ok(self.timed(self.deadline(), message).await?.answer)
    }

    /// Does the same, with a deadline for each attempt.
    pub async fn call_within<M: Call>(
        &self,
        deadline: Duration,
        message: M,
    ) -> Result<M::Answer, Error> {
        Ok(self.timed(deadline, message).await?.answer)
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.shared.options.deadline
    }

    /// Returns the pause after which a waiting call is repeated; `None` if its error is final.
    pub(crate) fn waiting_pause(&self, error: &Error) -> Option<Duration> {
        let may_repeat = self.shared.tokens.exist() && error.is_passing();
        let pause = random::between(WAITING_PAUSE, 0.5, 1.5);
        may_repeat.then(|| error.retry_after.unwrap_or_default() + pause)
    }

    /// Returns the given id of a request, or a new one. Without retries no id is needed.
    pub(crate) fn request_id(&self, given: Option<&str>) -> String {
        match given {
            Some(id) => id.to_owned(),
            None if self.shared.tokens.exist() => random::id(),
            None => String::new(),
        }
    }

    pub(crate) fn closing(&self) -> &Closing {
        &self.shared.closing
    }

    pub(crate) fn checks(&self) -> &CheckLog {
        &self.shared.checks
    }

    pub(crate) fn claims(&self) -> &Claims {
        &self.shared.claims
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.shared.keeper
    }

    pub(crate) async fn timed<M: Call>(
        &self,
        deadline: Duration,
        message: M,
    ) -> Result<Answered<M::Answer>, Error> {
        self.repeated(&self.shared.main, Some(&self.shared.turns), deadline, message).await
    }

    /// Makes a waiting call, on a connection for such calls.
    pub(crate) async fn waiting<M: Call>(
        &self,
        deadline: Duration,
        message: M,
    ) -> Result<Answered<M::Answer>, Error> {
        let place = self.lane();
        self.repeated(place.channels(), None, deadline, message).await
    }

    /// Takes a place on a connection of waiting calls and streams.
    pub(crate) fn lane(&self) -> LanePlace {
        self.shared.lanes.take(&self.shared.main)
    }

    /// Makes one attempt of a call.
    pub(crate) async fn once<M: Call>(
        &self,
        deadline: Duration,
        message: M,
    ) -> Result<Answered<M::Answer>, Error> {
        self.attempt(&self.shared.main, deadline, message, M::send).await
    }

    async fn repeated<M: Call>(
        &self,
        channels: &Channels,
        turns: Option<&Turns>,
        deadline: Duration,
        message: M,
    ) -> Result<Answered<M::Answer>, Error> {
        self.shared.tokens.earn();
        let mut attempt = 1;
        loop {
            let turn = match turns {
                Some(turns) => turns.take::<M>(&self.shared.closing).await?,
                None => None,
            };
            let error = match self.attempt(channels, deadline, message.clone(), M::send).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            drop(turn);
            attempt += 1;
            let pause = retry::pause(&error, attempt);
            match pause.filter(|_| attempt <= ATTEMPTS && message.is_repeatable()) {
                Some(pause) if self.shared.tokens.take() => {
                    self.shared.closing.pause(pause).await?;
                }
                _ => return Err(error),
            }
        }
    }

    /// Makes one attempt at the next server. The timer of a channel starts when it is connected;
    /// this timeout includes the time to connect.
    pub(crate) async fn attempt<M, A, F>(
        &self,
        channels: &Channels,
        deadline: Duration,
        message: M,
        send: impl FnOnce(Channel, Request<M>) -> F,
    ) -> Result<Answered<A>, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut request = self.request(message)?;
        request.set_timeout(deadline);
        let picked = channels.pick();
        picked.check()?;
        self.shared.sent.fetch_add(1, Ordering::Relaxed);
        let sent = Moment::now();
        let call = timeout(deadline, send(picked.channel(), request));
        let mut pending = Pending { picked: Some(picked), sent, deadline };
        let answer = self.shared.closing.run(call).await?;
        let Some(picked) = pending.picked.take() else { return Err(Error::deadline()) };
        match answer {
            Ok(Ok(answer)) => {
                picked.answered();
                Ok(Answered { answer: answer.into_inner(), sent })
            }
            Ok(Err(status)) => {
                let error = Error::from(status);
                picked.failed(&error);
                Err(error)
            }
            Err(_) => {
                picked.silent();
                Err(Error::deadline())
            }
        }
    }

    /// Opens a stream. The deadline applies only to its first answer.
    pub(crate) async fn stream<M, A, F>(
        &self,
        place: &LanePlace,
        message: M,
        open: impl FnOnce(Channel, Request<M>) -> F,
    ) -> Result<A, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let request = self.request(message)?;
        let picked = place.channels().pick();
        picked.check()?;
        self.shared.sent.fetch_add(1, Ordering::Relaxed);
        let call = timeout(self.deadline(), open(picked.channel(), request));
        match self.shared.closing.run(call).await? {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => {
                let error = Error::from(status);
                if error.code == "UNAVAILABLE" {
                    picked.failed(&error);
                }
                Err(error)
            }
            Err(_) => {
                picked.silent();
                Err(Error::deadline())
            }
        }
    }

    /// Wraps a message with the token and the namespace.
    fn request<M>(&self, message: M) -> Result<Request<M>, Error> {
        let mut request = Request::new(message);
        if let Some(authorization) = self.shared.token.authorization()? {
            request.metadata_mut().insert("authorization", authorization);
        }
        if let Some(namespace) = &self.shared.namespace {
            request.metadata_mut().insert(NAMESPACE, namespace.clone());
        }
        Ok(request)
    }

    pub(crate) fn main(&self) -> &Channels {
        &self.shared.main
    }
}
