//! A reload changes `[limits]` while calls run: each key is raised and lowered, and no call of
//! another caller may fail.

mod bytes;
mod calls;
mod connections;
mod times;

use tollgate_client::Connection;

use super::{Reloads, pool};
use crate::hostile::bystander::Bystander;

/// A server whose limits change.
struct Limited {
    reloads: Reloads,
    operator: Connection,
    bystander: Bystander,
}

impl Limited {
    async fn start(limits: &str) -> Limited {
        Limited::with(limits, &[]).await
    }

    async fn with(limits: &str, flags: &[&str]) -> Limited {
        let sections = pool("p", 1) + &section(limits);
        let reloads = Reloads::with(false, "", &sections, flags).await;
        let operator = Connection::open(&reloads.world.address).await.unwrap();
        let bystander = Bystander::start(&reloads.world.address).await;
        Limited { reloads, operator, bystander }
    }

    /// Replaces `[limits]`, and reloads.
    async fn set(&self, limits: &str) {
        self.reloads.write(&(pool("p", 1) + &section(limits)));
        // On the connection of the operator: a limit may refuse a new one.
        self.operator.reload_config(false).await.unwrap();
    }

    fn port(&self) -> u16 {
        self.reloads.server.server.port
    }

    /// Fails if a call of the bystander has failed.
    async fn finish(self) {
        self.bystander.finish().await;
    }
}

fn section(limits: &str) -> String {
    format!("[limits]\n{limits}\n")
}
