//! The history checker of `tests/history`, applied to the events of a running server.

#[path = "../history/admissions.rs"]
mod admissions;
#[path = "../history/checker.rs"]
mod checker;
#[path = "../history/event.rs"]
mod event;
#[path = "../history/reader.rs"]
mod reader;
#[path = "../history/tasks.rs"]
mod tasks;

use std::time::Duration;

use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tollgate_client::pb;

use crate::{
    events::watch::Events,
    support::world::{Client, micros},
};
use checker::Checker;
pub use checker::{Demands, Verdict};
use event::{Event, Kind, Outcome};
pub use reader::check;

/// Quiet time after which the record of a pool counts as complete.
const QUIET: Duration = Duration::from_millis(500);

/// Records and checks all events of a pool from now on.
pub struct Recorder {
    stop: oneshot::Sender<()>,
    verdict: JoinHandle<Verdict>,
}

impl Recorder {
    pub async fn start(client: &Client, pool: &str, demands: Demands) -> Recorder {
        let mut events = Events::watch(client, pool, None).await;
        let (client, pool) = (client.clone(), pool.to_owned());
        let (stop, mut stopped) = oneshot::channel();
        let verdict = tokio::spawn(async move {
            let (mut checker, mut is_stopped) = (Checker::new(demands), false);
            let mut after = None;
            loop {
                tokio::select! {
                    _ = &mut stopped, if !is_stopped => is_stopped = true,
                    event = events.wait() => match event {
                        Ok(event) => {
                            after = Some(event.cursor.clone());
                            checker.see(&read(event));
                        }
                        // The server ended the stream, since a busy machine read too slowly. It is
                        // resumed.
                        Err(_) => events = Events::watch(&client, &pool, after.as_deref()).await,
                    },
                    () = sleep(QUIET), if is_stopped => return checker.finish(),
                }
            }
        });
        Recorder { stop, verdict }
    }

    /// Waits for the last events. Returns the verdict.
    pub async fn end(self) -> Verdict {
        self.stop.send(()).unwrap();
        timeout(Duration::from_secs(60), self.verdict).await.unwrap().unwrap()
    }
}

fn read(event: pb::PoolEvent) -> Event {
    let failed = event.outcome() == pb::Outcome::Failed;
    Event {
        cursor: event.cursor.parse().unwrap(),
        kind: Kind::numbered(event.kind as u64),
        fencing_token: event.fencing_token,
        attempt: event.attempt,
        outcome: if failed { Outcome::Failed } else { Outcome::Succeeded },
        event_time: event.event_time.map(|time| micros(Some(time))),
        capacity: event.capacity,
        device_id: event.device_id,
        task_id: event.task_id,
    }
}
