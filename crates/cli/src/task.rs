//! `tollgate task`: lists, queues, cancels and requeues tasks, for operators.

mod options;

use std::{
    fs::File,
    io::{self, Read, stdin},
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use tollgate_client::{
    Connection, EnqueueStatus, Error, QueuedTask,
    pb::{AttemptEnd, CancelVerdict, RequeueVerdict, Task},
};

pub use options::{HELP, QueueFlags, TaskIdFlags, TaskOptions, TaskStateName, TaskVerb};

use super::{
    client::{self, ClientError, connect, failed},
    exit,
    listing::PrintedList,
    output::OutputFlags,
    pool::{since, until},
    table::Column,
};
use tollgate_core::{admission::PAYLOAD_BYTES_MAX, time::Clock};

/// Makes the calls of the verb and prints the result.
pub async fn run(options: &TaskOptions) -> Result<ExitCode, ClientError> {
    let TaskOptions { verb, output, server } = options;
    let what = verb.what();
    // Read before connecting, because a payload from standard input can take any time.
    let payload = match verb {
        TaskVerb::Queue(flags) => payload(flags)
            .map_err(|error| ClientError(format!("cannot {what}: the payload: {error}")))?,
        _ => Vec::new(),
    };
    let connection = connect(&server.url, &server.access, &what).await?;
    let fail = |error: &Error| failed(&what, &server.url, error, advice(client::fate(error), verb));
    let code = match verb {
        TaskVerb::List { pool, state } => {
            let listing = PrintedList { message: "Task", columns: COLUMNS, row };
            let (pool, state) = (connection.pool(pool), state.map(Into::into));
            let read = async |token: &str| pool.tasks(state, token).await;
            listing.print(*output, read, fail).await.map(|()| 0)?
        }
        TaskVerb::Queue(flags) => {
            queue(&connection, flags, payload, *output).await.map_err(|error| fail(&error))?
        }
        TaskVerb::Cancel(name) => {
            cancel(&connection, name, *output).await.map_err(|error| fail(&error))?
        }
        TaskVerb::Requeue(name) => {
            requeue(&connection, name, *output).await.map_err(|error| fail(&error))?
        }
    };
    Ok(ExitCode::from(code))
}

const COLUMNS: [Column; 8] = [
    Column::Text("DEVICE"),
    Column::Text("TASK"),
    Column::Text("STATE"),
    Column::Number("ATTEMPT"),
    Column::Text("LAST ATTEMPT"),
    Column::Number("QUEUED FOR"),
    Column::Number("EXPIRES IN"),
    Column::Number("TOKEN"),
];

fn row(task: &Task) -> [String; 8] {
    let state = task.state().as_str_name().trim_start_matches("TASK_STATE_").to_lowercase();
    let last_attempt = match task.last_attempt_end() {
        AttemptEnd::Unspecified => "-",
        AttemptEnd::Failed => "failed",
        AttemptEnd::Expired => "expired",
        AttemptEnd::Evicted => "evicted",
    };
    let token = match task.fencing_token {
        0 => "-".to_owned(),
        token => token.to_string(),
    };
    [
        task.device_id.clone(),
        task.task_id.clone(),
        state,
        task.attempt.to_string(),
        last_attempt.to_owned(),
        since(task.enqueue_time),
        until(task.expire_time),
        token,
    ]
}

/// Reads the payload. Fails if it is larger than the contract permits.
fn payload(flags: &QueueFlags) -> io::Result<Vec<u8>> {
    let (mut payload, most) = (Vec::new(), PAYLOAD_BYTES_MAX as u64 + 1);
    let named = |path: &Path, error: io::Error| {
        io::Error::new(error.kind(), format!("{}: {error}", path.display()))
    };
    match (&flags.payload, &flags.payload_file) {
        (Some(text), _) => payload.extend(text.as_bytes()),
        (None, Some(path)) if path.as_os_str() == "-" => {
            stdin().lock().take(most).read_to_end(&mut payload)?;
        }
        (None, Some(path)) => {
            let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut payload));
            read.map_err(|error| named(path, error))?;
        }
        (None, None) => {}
    }
    if payload.len() <= PAYLOAD_BYTES_MAX {
        Ok(payload)
    } else {
        Err(io::Error::other("expected at most 65,536 bytes"))
    }
}

async fn queue(
    connection: &Connection,
    flags: &QueueFlags,
    payload: Vec<u8>,
    output: OutputFlags,
) -> Result<u8, Error> {
    let TaskIdFlags { pool, device, task } = &flags.name;
    let now = SystemTime::UNIX_EPOCH + Duration::from_micros(Clock::system().now().0);
    let queued = QueuedTask {
        device_id: device.clone(),
        task_id: task.clone(),
        payload: payload.into(),
        expire_time: flags.expire_in.map(|length| (now + length).into()),
    };
    let result = connection.pool(pool).queue(queued).await?;
    let (text, code) = match result.status() {
        EnqueueStatus::Enqueued => ("ENQUEUED  last in the queue of its device", 0),
        EnqueueStatus::Duplicate => ("DUPLICATE  the task exists already; nothing changed", 0),
        EnqueueStatus::Expired => {
            ("EXPIRED  its time has already passed; is a clock wrong?", exit::REFUSED)
        }
        EnqueueStatus::Full => ("FULL  the pool has its maximum of queued tasks", exit::REFUSED),
        EnqueueStatus::Unreadable => {
            let message = "a stored value of the task cannot be read".to_owned();
            return Err(Error { code: "INTERNAL", message, ..Error::default() });
        }
        EnqueueStatus::Unavailable | EnqueueStatus::Unspecified => {
            let message = "the store refused the task, which is not queued".to_owned();
            return Err(Error { code: "UNAVAILABLE", message, ..Error::default() });
        }
    };
    output.print("EnqueueResult", &result, || text.to_owned());
    Ok(code)
}

async fn cancel(
    connection: &Connection,
    name: &TaskIdFlags,
    output: OutputFlags,
) -> Result<u8, Error> {
    let TaskIdFlags { pool, device, task } = name;
    let answer = connection.pool(pool).cancel(device, task).await?;
    let (text, code) = match answer.verdict() {
        CancelVerdict::Cancelled if answer.replayed => ("CANCELLED  by an earlier call", 0),
        CancelVerdict::Cancelled => ("CANCELLED  it will not be dispatched again", 0),
        CancelVerdict::Running => {
            ("RUNNING  it will not be dispatched again; `tollgate pool evict` frees its slot", 0)
        }
        CancelVerdict::Completed => ("COMPLETED  it has a result", exit::REFUSED),
        CancelVerdict::Unknown => ("UNKNOWN  no such task was queued", exit::REFUSED),
        CancelVerdict::Unspecified => {
            let message = "malformed answer: verdict".to_owned();
            return Err(Error { code: "INTERNAL", message, ..Error::default() });
        }
    };
    output.print("CancelTaskResponse", &answer, || text.to_owned());
    Ok(code)
}

async fn requeue(
    connection: &Connection,
    name: &TaskIdFlags,
    output: OutputFlags,
) -> Result<u8, Error> {
    let TaskIdFlags { pool, device, task } = name;
    let answer = connection.pool(pool).requeue(device, task).await?;
    let (text, code) = match answer.verdict() {
        RequeueVerdict::Requeued => {
            ("REQUEUED  last in the queue of its device, with new attempts", 0)
        }
        RequeueVerdict::AlreadyQueued => ("ALREADY_QUEUED  it is in the queue", 0),
        RequeueVerdict::NotDead => ("NOT_DEAD  it has a result or was cancelled", exit::REFUSED),
        RequeueVerdict::Expired => ("EXPIRED  its expire time has passed", exit::REFUSED),
        RequeueVerdict::Full => ("FULL  the pool has its maximum of queued tasks", exit::REFUSED),
        RequeueVerdict::Unknown => ("UNKNOWN  no such task was queued", exit::REFUSED),
        RequeueVerdict::Unspecified => {
            let message = "malformed answer: verdict".to_owned();
            return Err(Error { code: "INTERNAL", message, ..Error::default() });
        }
    };
    output.print("RequeueTaskResponse", &answer, || text.to_owned());
    Ok(code)
}

/// Returns what to do about a failed call.
fn advice(code: &str, verb: &TaskVerb) -> &'static str {
    match (code, verb) {
        ("CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN", TaskVerb::List { .. }) => {
            "the list is incomplete: try again"
        }
        ("CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN", _) => {
            "the change may have been made: repeat the command, which then changes nothing"
        }
        ("INTERNAL", _) => {
            "`tollgate pool evict` deletes the record of a task, `tollgate pool reset` repairs the \
             pool"
        }
        ("PERMISSION_DENIED", _) => "use the token of a caller that may use this pool",
        ("UNIMPLEMENTED", _) => "this is not a Tollgate server, or one without admission",
        _ => client::advice(code),
    }
}
