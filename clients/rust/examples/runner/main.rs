//! Performs the commands of the common scenarios (clients/scenarios) with this library.

mod admission;
mod bulk;
mod others;
mod streams;
mod usage;

use std::{
    collections::HashMap,
    error::Error,
    io::{BufRead, Write},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::{sync::oneshot, task::AbortHandle};
use tollgate_client::{
    Access, Allocator, Connection, Error as CallError, Held, LockGuard, Options, Permit,
    Reservation, Token, WorkerHandle, advance_clock,
};

/// The object to which a handle of the scenarios refers.
enum Object {
    Permit {
        permit: Option<Permit>,
        held: Held,
        lost: AbortHandle,
    },
    Lock {
        guard: Option<LockGuard>,
        held: Held,
        lost: AbortHandle,
    },
    Many(Vec<Permit>),
    Worker(WorkerHandle),
    Allocator(Arc<Allocator>),
    Reservation(Reservation),
    /// A watch or a web server.
    Task(AbortHandle),
}

/// The state of the runner.
struct Runner {
    connections: Mutex<HashMap<String, Connection>>,
    objects: Mutex<HashMap<String, Object>>,
    running: Mutex<HashMap<String, oneshot::Sender<()>>>,
    output: mpsc::Sender<Value>,
}

type Answer = Result<Value, CallError>;

/// The fields of a command.
struct Fields(Map<String, Value>);

impl Fields {
    fn text(&self, name: &str) -> String {
        self.optional(name).unwrap_or_default()
    }

    fn optional(&self, name: &str) -> Option<String> {
        self.0.get(name).and_then(Value::as_str).map(str::to_owned)
    }

    fn seconds(&self, name: &str) -> Option<Duration> {
        self.0.get(name).and_then(Value::as_f64).map(Duration::from_secs_f64)
    }

    fn is(&self, name: &str) -> Option<bool> {
        self.0.get(name).and_then(Value::as_bool)
    }

    /// Returns a number, or a 64-bit number as text.
    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        match self.0.get(name)? {
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => number.to_string().parse().ok(),
            _ => None,
        }
    }

    fn items(&self, name: &str) -> Vec<Fields> {
        let items = self.0.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        items.iter().filter_map(|item| item.as_object().cloned().map(Fields)).collect()
    }
}

impl Runner {
    fn connection(&self, fields: &Fields) -> Result<Connection, CallError> {
        let name = fields.optional("connection").unwrap_or_else(|| "main".to_owned());
        let found = locked(&self.connections).get(&name).cloned();
        found.ok_or_else(|| unknown(&name))
    }

    fn insert(&self, fields: &Fields, object: Object) {
        let before = locked(&self.objects).insert(fields.text("handle"), object);
        drop(before);
    }

    fn send(&self, value: Value) {
        // If nothing reads the event, the runner is about to end.
        let _ = self.output.send(value);
    }

    /// Sends the event `lost` when a lease is lost.
    fn report_loss(self: &Arc<Runner>, fields: &Fields, held: &Held) -> AbortHandle {
        let (runner, handle, lost) = (self.clone(), fields.text("handle"), held.lost());
        let task = tokio::spawn(async move {
            lost.await;
            runner.send(json!({ "event": "lost", "handle": handle }));
        });
        task.abort_handle()
    }

    fn open(&self, fields: &Fields) -> Answer {
        let addresses = fields.0.get("addresses").and_then(Value::as_array);
        let addresses = addresses.into_iter().flatten().filter_map(Value::as_str);
        let path = |name| fields.optional(name).map(PathBuf::from);
        let access =
            Access { ca: path("ca"), cert: path("cert"), key: path("key"), ..Access::default() };
        let mut options = Options::new(addresses).access(access);
        if let Some(name) = fields.optional("server_name") {
            options = options.server_name(name);
        }
        if let Some(namespace) = fields.optional("namespace") {
            options = options.namespace(namespace);
        }
        if let Some(deadline) = fields.seconds("deadline") {
            options = options.deadline(deadline);
        }
        if let Some(token) = fields.optional("token") {
            options = options.token(Token::Value(token));
        } else if let Some(file) = path("token_file") {
            options = options.token(Token::File(file));
        } else if let Some(file) = path("token_callback") {
            options = options.token(Token::callback(move || std::fs::read_to_string(&file)));
        }
        let name = fields.optional("connection").unwrap_or_else(|| "main".to_owned());
        locked(&self.connections).insert(name, options.lazy()?);
        Ok(json!({}))
    }

    fn close(&self, fields: &Fields) -> Answer {
        let name = fields.optional("connection").unwrap_or_else(|| "main".to_owned());
        let closed = locked(&self.connections).remove(&name);
        closed.map(|it| it.close()).map(|()| json!({})).ok_or_else(|| unknown(&name))
    }

    /// Performs a command.
    async fn perform(self: &Arc<Runner>, fields: Fields) -> Answer {
        let command = fields.text("do");
        match &*command {
            "open" => self.open(&fields),
            "close" => self.close(&fields),
            "clock" => {
                advance_clock(fields.seconds("advance").unwrap_or_default());
                Ok(json!({}))
            }
            "usage" => {
                let calls = locked(&self.connections).values().map(Connection::requests_sent).sum();
                Ok(usage::usage(calls))
            }
            "cancel" => {
                let running = locked(&self.running).remove(&fields.0["target"].to_string());
                drop(running);
                Ok(json!({}))
            }
            "watch_pool" | "watch_rates" | "watch_stop" | "http_start" | "http_stop" => {
                self.stream(&command, fields).await
            }
            "admit_many" | "complete_many" | "renew_many" | "hold" | "held" | "release"
            | "pairs" => self.bulk(&command, fields).await,
            "check" | "address_key" | "get_key" | "next" | "set_floor" | "allocator"
            | "allocate" | "lock" | "lock_state" | "unlock" | "leave_lock" | "set_stock"
            | "add_stock" | "stock" | "reserve" | "confirm" | "cancel_reservation"
            | "leave_reservation" => self.other(&command, fields).await,
            _ => self.admission(&command, fields).await,
        }
    }

    /// Performs a line. A command whose sender is dropped is cancelled.
    async fn line(self: Arc<Runner>, id: Value, fields: Fields, cancelled: oneshot::Receiver<()>) {
        let answer = tokio::select! {
            answer = self.perform(fields) => answer,
            _ = cancelled => Err(CallError { code: "CANCELLED", ..CallError::default() }),
        };
        locked(&self.running).remove(&id.to_string());
        self.send(match answer {
            Ok(answer) => json!({ "id": id, "answer": answer }),
            Err(error) => json!({ "id": id, "error": described(&error) }),
        });
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the error of a scope that fails.
fn failure() -> CallError {
    CallError { code: "ABORTED", message: "the task failed".to_owned(), ..CallError::default() }
}

fn unknown(name: &str) -> CallError {
    CallError { code: "NOT_FOUND", message: format!("unknown: {name}"), ..CallError::default() }
}

fn described(error: &CallError) -> Value {
    let violations = error.violations.iter();
    let violations: Vec<Value> =
        violations.map(|it| json!({ "field": it.field, "description": it.description })).collect();
    let mut described = json!({
        "code": error.code,
        "reason": error.reason,
        "violations": violations,
        "message": error.message,
    });
    put(&mut described, "retry_after", error.retry_after);
    described
}

/// Adds a duration, if there is one.
fn put(answer: &mut Value, name: &str, length: Option<Duration>) {
    if let Some(length) = length {
        answer[name] = json!(length.as_secs_f64());
    }
}

/// Returns the name of an enum's value without its prefix, which has this number of words.
fn short(name: &str, words: usize) -> &str {
    name.splitn(words + 1, '_').last().unwrap_or(name)
}

fn main() -> Result<(), Box<dyn Error>> {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr);
    log.with_max_level(tracing::Level::WARN).init();
    let (output, lines) = mpsc::channel::<Value>();
    std::thread::spawn(move || {
        for line in lines {
            let mut out = std::io::stdout().lock();
            if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
                return;
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let _inside = runtime.enter();
    let runner = Arc::new(Runner {
        connections: Mutex::default(),
        objects: Mutex::default(),
        running: Mutex::default(),
        output,
    });
    for line in std::io::stdin().lock().lines() {
        let Value::Object(fields) = serde_json::from_str(&line?)? else { continue };
        let fields = Fields(fields);
        if fields.text("do") == "quit" {
            break;
        }
        let id = fields.0.get("id").cloned().unwrap_or_default();
        let (sender, cancelled) = oneshot::channel();
        locked(&runner.running).insert(id.to_string(), sender);
        runtime.spawn(runner.clone().line(id, fields, cancelled));
    }
    std::process::exit(0)
}
