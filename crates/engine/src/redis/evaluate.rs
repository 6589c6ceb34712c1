//! Sends scripts as EVALSHA and parses the replies.
//!
//! Redis forgets scripts at a restart, a failover or SCRIPT FLUSH. It then answers NOSCRIPT, and
//! the script is loaded and called again in one write. This module also maps error replies of Redis
//! to errors.

mod probe;

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::{RedisError, RedisResult, ServerErrorKind, Value};

use super::{
    job::{ALONE, Job},
    marker::Marker,
    resp::CommandWriter,
    socket::RedisSocket,
};
use tollgate_core::{
    Arguments, Decision, Item, Reply, State,
    acknowledgement::Acknowledgement,
    error::Error,
    script::{self, Script},
    time::Timestamp,
};
use tollgate_telemetry::{metrics, text};

pub(super) use probe::{ProbeRequest, Probed};

/// The scripts, with text and SHA-1.
#[derive(Debug)]
pub(super) struct Scripts {
    /// By [`Script::index`].
    prepared: Vec<Prepared>,
}

#[derive(Debug)]
struct Prepared {
    text: String,
    sha1: String,
    /// The number of script calls so far, without repetitions after NOSCRIPT.
    calls: AtomicU64,
}

/// The arguments that depend on the node.
#[derive(Debug)]
pub(super) struct NodeArguments {
    /// The token lead over the clock of the node, in µs.
    pub(super) ahead: u64,
    /// The marker of the store; `None` for a node without slots.
    pub(super) marker: Option<Arc<Marker>>,
}

/// Maximum number of attempts to load a script. Redis reads 16 KiB at a time and serves other
/// clients in between, so a flush can occur between the text and the call.
const RELOADS_MAX: usize = 8;

/// The reason for a decision that was not executed because the marker of the store is not the one
/// that this server knows.
const MARKER_CHANGED: &str = "the marker of the store has changed";
/// Maximum number of bytes of a Redis message that an error quotes.
const MESSAGE_MAX: usize = 1024;

/// The jobs of one script call: the same script and slot.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) script: &'static Script,
    /// Whether ASKING must precede the call: the slot is migrating to this node.
    pub(super) asking: bool,
    pub(super) jobs: Vec<Job>,
}

impl Run {
    /// Whether the job must be in this script call: it is a plain job that follows another one of
    /// the same batch on the same partition. The engine bounds the number of such jobs.
    pub(super) fn must_have(&self, job: &Job) -> bool {
        job.script.plain > 0
            && job.batch != ALONE
            && self.jobs.last().is_some_and(|last| {
                last.batch == job.batch
                    && last.arguments.keys().next() == job.arguments.keys().next()
            })
    }
}

impl Scripts {
    /// Prepares all scripts. `clock` replaces the clock fragment, for tests.
    pub(super) fn new(clock: Option<&str>) -> Scripts {
        let prepare = |script: &&'static Script| {
            let text = script.text(clock);
            let sha1 = redis::Script::new(&text).get_hash().to_owned();
            Prepared { text, sha1, calls: AtomicU64::new(0) }
        };
        Scripts { prepared: script::ALL.iter().map(prepare).collect() }
    }

    /// Returns the number of calls of a script so far.
    pub(super) fn calls(&self, script: &Script) -> u64 {
        self.prepared[script.index].calls.load(Ordering::Relaxed)
    }

    /// Runs script calls in one round trip, or two if Redis has to load a script.
    pub(super) async fn send(
        &self,
        socket: &mut RedisSocket,
        runs: &[Run],
        node: &NodeArguments,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let all: Vec<&Run> = runs.iter().collect();
        for run in runs {
            self.prepared[run.script.index].calls.fetch_add(1, Ordering::Relaxed);
        }
        let mut results = self.call(socket, &all, node, false).await?;
        for _ in 0..RELOADS_MAX {
            let lost: Vec<usize> = (0..runs.len())
                .filter(|index| results[*index].as_ref().is_err_and(forgotten))
                .collect();
            if lost.is_empty() {
                break;
            }
            // Needed after a flush, a restart or a failover.
            let again: Vec<&Run> = lost.iter().map(|index| &runs[*index]).collect();
            let reloaded = self.call(socket, &again, node, true).await?;
            for (index, result) in lost.into_iter().zip(reloaded) {
                results[index] = result;
            }
        }
        Ok(results)
    }

    /// Sends script calls in one write, each after SCRIPT LOAD if `load` is set. Returns the
    /// replies to the calls.
    async fn call(
        &self,
        socket: &mut RedisSocket,
        runs: &[&Run],
        node: &NodeArguments,
        load: bool,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut calls = Vec::with_capacity(runs.len());
        let write = |commands: &mut CommandWriter<'_>| {
            for run in runs {
                if load {
                    commands.begin(3);
                    commands.part(b"SCRIPT");
                    commands.part(b"LOAD");
                    commands.part(self.prepared[run.script.index].text.as_bytes());
                }
                if run.asking {
                    commands.begin(1);
                    commands.part(b"ASKING");
                }
                calls.push(commands.count());
                self.write_call(commands, run, node);
            }
        };
        let mut replies = socket.exchange_written(write).await?;
        let taken = || Err((redis::ErrorKind::UnexpectedReturnType, "no reply").into());
        Ok(calls.into_iter().map(|place| mem::replace(&mut replies[place], taken())).collect())
    }

    /// Writes the EVALSHA of a script call. Scripts that compare the marker of the store receive
    /// its key and text. These scripts, and those that hand out tokens, receive the token lead as
    /// the last argument.
    fn write_call(&self, commands: &mut CommandWriter<'_>, run: &Run, node: &NodeArguments) {
        let Run { script, jobs, .. } = run;
        let ahead = node.ahead.to_string();
        let [key, text] = match node.marker.as_deref() {
            Some(marker) => [&*marker.key, &*marker.text],
            None => ["", ""],
        };
        let last = match (script.checks_store, script.gives_tokens) {
            (true, _) => &[key, text, &ahead][..],
            (false, true) => &[&*ahead],
            (false, false) => &[],
        };
        match script.shared() {
            _ if script.plain > 0 => self.write_plain(commands, script, jobs, last.len()),
            Some(shared) => self.write_rows(commands, (script, shared), jobs, last.len()),
            None => self.write_items(commands, script, jobs, last.len()),
        }
        commands.parts(last.iter().map(|argument| argument.as_bytes()));
    }

    /// Writes the start of an EVALSHA with these numbers of KEYS and ARGV.
    fn begin(
        &self,
        commands: &mut CommandWriter<'_>,
        script: &Script,
        (keys, argv): (usize, usize),
    ) {
        commands.begin(3 + keys + argv);
        commands.part(b"EVALSHA");
        commands.part(self.prepared[script.index].sha1.as_bytes());
        commands.number(keys);
    }

    /// Writes an EVALSHA up to its `last` arguments: all KEYS, job by job, then all ARGV.
    fn write_items(
        &self,
        commands: &mut CommandWriter<'_>,
        script: &Script,
        jobs: &[Job],
        last: usize,
    ) {
        let keys = jobs.iter().map(|job| job.arguments.keys().len()).sum();
        let argv = jobs.iter().map(|job| job.arguments.argv().len()).sum::<usize>();
        self.begin(commands, script, (keys, argv + last));
        commands.parts(jobs.iter().flat_map(|job| job.arguments.keys()));
        commands.parts(jobs.iter().flat_map(|job| job.arguments.argv()));
    }

    /// Writes an EVALSHA up to its `last` arguments. For each row of jobs with the same shared KEYS
    /// and ARGV, these come once, followed by the items.
    fn write_rows(
        &self,
        commands: &mut CommandWriter<'_>,
        (script, shared): (&Script, (usize, usize)),
        jobs: &[Job],
        last: usize,
    ) {
        let (shared_keys, shared_argv) = shared;
        let rows = jobs.chunk_by(|one, next| one.arguments.agree(&next.arguments, shared));
        let rows: Vec<&[Job]> = rows.collect();
        let keys = rows.len() * shared_keys + jobs.len() * (script.keys - shared_keys);
        let argv = rows.len() * (1 + shared_argv) + jobs.len() * (script.argv - shared_argv);
        self.begin(commands, script, (keys, argv + last));
        for row in &rows {
            commands.parts(row[0].arguments.keys().take(shared_keys));
            commands.parts(row.iter().flat_map(|job| job.arguments.keys().skip(shared_keys)));
        }
        for row in &rows {
            commands.number(row.len());
            commands.parts(row[0].arguments.argv().take(shared_argv));
            commands.parts(row.iter().flat_map(|job| job.arguments.argv().skip(shared_argv)));
        }
    }

    /// Writes the EVALSHA of a plain script up to its `last` arguments, as `lua/lib/rows.lua`
    /// describes it. Adjacent equal jobs are one item.
    fn write_plain(
        &self,
        commands: &mut CommandWriter<'_>,
        script: &Script,
        jobs: &[Job],
        last: usize,
    ) {
        let shared @ (shared_keys, shared_argv) = script.shared().unwrap_or_default();
        let mut items: Vec<(&Arguments, u32)> = Vec::with_capacity(jobs.len());
        let equal = jobs.chunk_by(|one, next| one.arguments == next.arguments);
        items.extend(equal.map(|jobs| (&jobs[0].arguments, jobs.len() as u32)));
        let rows = items.chunk_by(|(one, _), (next, _)| one.agree(next, shared));
        let rows: Vec<&[(&Arguments, u32)]> = rows.collect();
        let keys = rows.len() * shared_keys + items.len() * (script.keys - shared_keys);
        self.begin(commands, script, (keys, rows.len() * (shared_argv + 1) + last));
        for row in &rows {
            commands.parts(row[0].0.keys().take(shared_keys));
        }
        for column in shared_keys..script.keys {
            commands.parts(items.iter().filter_map(|(item, _)| item.keys().nth(column)));
        }
        let mut packed = Vec::new();
        for row in &rows {
            commands.parts(row[0].0.argv().take(shared_argv));
            packed.clear();
            packed.extend((row.len() as u32).to_le_bytes());
            for (item, times) in *row {
                packed.extend_from_slice(item.argv_after(shared_argv));
                packed.extend(times.to_le_bytes());
            }
            commands.part(&packed);
        }
    }
}

/// Sends WAIT. It takes at most four fifths of the time left, so that an unacknowledged write can
/// still be revoked before the deadline.
pub(super) async fn wait(
    socket: &mut RedisSocket,
    acknowledgement: Acknowledgement,
    left: Duration,
) -> RedisResult<Result<(), String>> {
    // WAIT with a timeout of 0 would block forever.
    let timeout = left.mul_f32(0.8).min(acknowledgement.timeout.duration());
    let (replicas, millis) = (acknowledgement.replicas, (timeout.as_millis() as u64).max(1));
    let wait = redis::cmd("WAIT").arg(replicas).arg(millis).to_owned();
    match wait.query_async::<u32>(socket).await {
        Ok(have) if have >= replicas => Ok(Ok(())),
        Ok(have) => Ok(Err(format!("{have} of {replicas} replicas acknowledged the write"))),
        Err(broken) if broken.code().is_none() => Err(broken),
        Err(refused) => Ok(Err(refused.to_string())),
    }
}

/// Whether Redis does not know the script (NOSCRIPT).
fn forgotten(error: &RedisError) -> bool {
    error.kind() == ServerErrorKind::NoScript.into()
}

/// Returns the error of the call for a failed command.
pub(super) fn error(error: &RedisError) -> Error {
    match error.code() {
        // Redis refused the whole call. Errors inside a script are replies of its items.
        Some(code) => refused(code, &error.to_string()),
        None if error.is_connection_refusal() => Error::Unavailable(error.to_string()),
        None => Error::DeadlineExceeded,
    }
}

/// Returns the error for an answer with an error code, which means that nothing was executed.
pub(super) fn refused(code: &str, why: &str) -> Error {
    let why = text::start(why, MESSAGE_MAX).to_owned();
    // No server can use the node, just as if it were unreachable.
    if ["LOADING", "CLUSTERDOWN", "MASTERDOWN"].contains(&code) {
        Error::Unavailable(why)
    } else {
        Error::Refused(why)
    }
}

/// Splits the reply to a batch into the replies to its `count` items, in order. The time follows
/// them. Counts the expired leases, whose number comes last if there are any.
pub(super) fn replies(
    script: &Script,
    value: Value,
    count: usize,
) -> Result<Vec<Result<Reply, Error>>, Error> {
    if script.plain > 0 {
        return plain_replies(script.plain, value, count);
    }
    // The error does not quote the reply, which can be long, because each call of the batch gets
    // the error.
    let unexpected =
        |got: usize| Error::Corrupt(format!("expected {count} replies and their time, got {got}"));
    let Value::Array(mut batch) = value else { return Err(unexpected(0)) };
    if batch.len() == count + 2
        && let Some(Value::Int(expired)) = batch.pop()
    {
        metrics::count(|cells| cells.expired_leases.add(expired.unsigned_abs()));
    }
    match batch.pop() {
        Some(Value::Int(now)) if batch.len() == count => {
            let now = Timestamp(now.unsigned_abs());
            Ok(batch.into_iter().map(|value| reply(value, now)).collect())
        }
        last => Err(unexpected(batch.len() + usize::from(last.is_some()))),
    }
}

/// Splits the reply of a plain script (`lua/lib/rows.lua`) into replies of `size` numbers. Decisions
/// without a reply were declined, unless a write failed that may have changed them.
fn plain_replies(
    size: usize,
    value: Value,
    count: usize,
) -> Result<Vec<Result<Reply, Error>>, Error> {
    let unexpected = || Error::Corrupt("a plain script replied with another type".to_owned());
    let Value::Array(parts) = value else { return Err(unexpected()) };
    let mut parts = parts.into_iter();
    let (Some(Value::BulkString(bytes)), Some(Value::Int(now))) = (parts.next(), parts.next())
    else {
        return Err(unexpected());
    };
    let now = Timestamp(now.unsigned_abs());
    let width = size * size_of::<i64>();
    if !bytes.len().is_multiple_of(width) || bytes.len() > count * width {
        let got = bytes.len();
        return Err(Error::Corrupt(format!("expected {count} plain replies, got {got} bytes")));
    }
    let mut replies = Vec::with_capacity(count);
    replies.extend(bytes.chunks_exact(width).map(|reply| {
        let (numbers, _) = reply.as_chunks();
        let numbers = numbers.iter().map(|number| Item::Number(i64::from_le_bytes(*number)));
        Ok(Reply::new(numbers.collect(), now))
    }));
    if let (Some(Value::Int(changed)), Some(Value::BulkString(why))) = (parts.next(), parts.next())
    {
        let why = failed(&String::from_utf8_lossy(&why));
        let changed = usize::try_from(changed).map_err(|_| unexpected())?;
        replies.extend((replies.len()..count).take(changed).map(|_| Err(why.clone())));
    }
    replies.extend((replies.len()..count).map(|_| Ok(Reply::declined(now))));
    Ok(replies)
}

/// Parses the reply to one item: an array, or numbers packed into a string. `{-1, message}` is an
/// error of the item.
fn reply(value: Value, now: Timestamp) -> Result<Reply, Error> {
    let unexpected = || Error::Corrupt("a script returned a reply of another type".to_owned());
    let values = match value {
        Value::Array(values) => values,
        // Numbers only, packed as 8 bytes each.
        Value::BulkString(bytes) if bytes.len() % 8 == 0 => {
            let (numbers, _) = bytes.as_chunks();
            let numbers = numbers.iter().map(|number| Item::Number(i64::from_le_bytes(*number)));
            return Ok(Reply::new(numbers.collect(), now));
        }
        _ => return Err(unexpected()),
    };
    let mut items = Vec::with_capacity(values.len());
    for value in values {
        items.push(match value {
            Value::Int(number) => Item::Number(number),
            Value::BulkString(bytes) => Item::Bytes(bytes),
            _ => return Err(unexpected()),
        });
    }
    match items.as_slice() {
        [Item::Number(-1), Item::Bytes(message)] => Err(failed(&String::from_utf8_lossy(message))),
        _ => Ok(Reply::new(items, now)),
    }
}

/// Whether a decision was not executed because the marker of the store has changed.
pub(super) fn is_marker_changed(error: &Error) -> bool {
    matches!(error, Error::Unavailable(why) if why == MARKER_CHANGED)
}

/// Returns the error of an item that failed inside its script.
fn failed(message: &str) -> Error {
    let message = text::start(message, MESSAGE_MAX);
    // Codes and texts with which Redis refuses a write inside a script.
    const REFUSALS: [&str; 8] = [
        "READONLY",
        "OOM",
        "MISCONF",
        "NOREPLICAS",
        "MASTERDOWN",
        // A server that only resembles Redis.
        "UNSUPPORTED",
        // The user lacks permissions: the text before Redis 7.2, and the text since then.
        "can't run this command",
        "NOPERM",
    ];
    // `lua/lib/failure.lua` marks a denied command that can have come after a write.
    if let Some(why) = message.strip_prefix("DENIED ") {
        return Error::Denied(why.to_owned());
    }
    // `lua/lib/store.lua`
    match message {
        "STORE_CHANGED" => return Error::Unavailable(MARKER_CHANGED.to_owned()),
        "STORE_LOST" => return Error::StoreLost,
        _ => {}
    }
    match message.strip_prefix("CORRUPT ") {
        Some(what) => Error::Corrupt(what.to_owned()),
        None if REFUSALS.iter().any(|code| message.contains(code)) => {
            Error::Refused(message.to_owned())
        }
        None if message.contains("WRONGTYPE") => Error::Corrupt(format!(
            "a value of a wrong type ({message}); ConfigurePool with reset, ResetRate, Unban or \
             DEL removes it"
        )),
        None => Error::Corrupt(message.to_owned()),
    }
}

/// Adds the name of the partition to the error of an unreadable value.
pub(super) fn named<D: Decision>(decision: &D, error: Error) -> Error {
    match error {
        Error::Corrupt(what) => {
            let name = text::escaped(&String::from_utf8_lossy(decision.partition())).to_string();
            Error::Corrupt(format!("{what}; {} `{name}`", <D::State as State>::CAPABILITY))
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::{job::LISTING, slot::Slot},
        *,
    };
    use tollgate_core::{Call, time::monotonic};

    /// Returns the script call of jobs with these KEYS and ARGV.
    fn run(script: &'static Script, jobs: &[(&[&str], &[&str])]) -> Run {
        let job = |(keys, argv): &(&[&str], &[&str])| {
            let mut call = Call::new("t", "rate", b"x");
            keys.iter().for_each(|key| call.key(&[key.as_bytes()]));
            argv.iter().for_each(|argument| call.bytes(&[argument.as_bytes()]));
            let now = monotonic();
            let times = (now, now + Duration::from_secs(1));
            Job::new(script, call.finish(), Slot::default(), LISTING, times).0
        };
        Run { script, asking: false, jobs: jobs.iter().map(job).collect() }
    }

    /// Whether the script call is written as an EVALSHA with these arguments after the SHA-1. A key
    /// is written without its stem.
    fn is_written(run: &Run, keys: &[&str], argv: &[&[u8]]) -> bool {
        let scripts = Scripts::new(None);
        let mut buffer = Vec::new();
        let node = NodeArguments { ahead: 12, marker: None };
        scripts.write_call(&mut CommandWriter::new(&mut buffer), run, &node);
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&scripts.prepared[run.script.index].sha1).arg(keys.len());
        keys.iter().for_each(|key| _ = cmd.arg(format!("t:{{rate:x}}:{key}")));
        cmd.arg(argv);
        buffer == cmd.get_packed_command()
    }

    #[test]
    fn script_calls_are_written_item_by_item_in_rows_or_packed() {
        let items = run(&script::sequence::GET, &[(&["a"], &["1"]), (&["b"], &["2"])]);
        assert!(is_written(&items, &["a", "b"], &[b"1", b"2", b"", b"", b"12"]));

        let one = (&["a", "b"][..], &["r", "1"][..]);
        let two = (&["c", "d"][..], &["r", "2"][..]);
        let other = (&["a", "b"][..], &["s", "1"][..]);
        let jobs = [one, one, two, other];
        let rows = run(&script::rate::COUNT_HITS, &jobs);
        let keys = ["a", "b", "a", "b", "c", "d", "a", "b"];
        assert!(is_written(&rows, &keys, &[b"3", b"r", b"1", b"1", b"2", b"1", b"s", b"1"]));

        let plain = run(&script::rate::CHECK_WINDOW, &jobs);
        let row = b"\x02\0\0\x001\x02\0\0\x002\x01\0\0\0";
        let last = b"\x01\0\0\x001\x01\0\0\0";
        assert!(is_written(&plain, &["a", "c", "a", "b", "d", "b"], &[b"r", row, b"s", last]));
    }

    /// Returns the statuses of three plain replies of two numbers each; the message of an error.
    fn statuses(parts: Vec<Value>) -> Result<Vec<Result<u64, String>>, Error> {
        let replies = plain_replies(2, Value::Array(parts), 3)?;
        let status = |reply: Result<Reply, Error>| match reply {
            Ok(reply) if reply.is_declined() => Ok(255),
            Ok(mut reply) => Ok(reply.number().unwrap()),
            Err(error) => Err(error.to_string()),
        };
        Ok(replies.into_iter().map(status).collect())
    }

    fn numbers(numbers: &[u64]) -> Value {
        Value::BulkString(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
    }

    #[test]
    fn decisions_without_a_reply_are_declined_or_failed() {
        let now = Value::Int(1);
        let all = statuses(vec![numbers(&[0, 7, 255, 0, 2, 7]), now.clone()]);
        assert_eq!(all, Ok(vec![Ok(0), Ok(255), Ok(2)]));
        let ended = statuses(vec![numbers(&[0, 7]), now.clone()]);
        assert_eq!(ended, Ok(vec![Ok(0), Ok(255), Ok(255)]));
        let why = Value::BulkString(b"OOM command not allowed".to_vec());
        let failed = statuses(vec![numbers(&[0, 7]), now.clone(), Value::Int(1), why]).unwrap();
        assert!(failed[1].as_ref().is_err_and(|why| why.contains("OOM")), "{failed:?}");
        assert_eq!((&failed[0], &failed[2]), (&Ok(0), &Ok(255)));
        for wrong in [&[0][..], &[0; 8]] {
            assert!(statuses(vec![numbers(wrong), now.clone()]).is_err(), "{wrong:?}");
        }
        assert!(statuses(vec![now]).is_err());
    }
}
