//! Watches and the web server.

use std::sync::Arc;

use axum::{Router, routing::get};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::AbortHandle};
use tollgate_client::{Error as CallError, Event, PoolEvent, RateEvent, RateLayer, Watch, Watched};

use crate::{Answer, Fields, Object, Runner, locked, short, unknown};

impl Runner {
    pub(crate) async fn stream(self: &Arc<Runner>, command: &str, fields: Fields) -> Answer {
        match command {
            "watch_pool" => {
                let describe = |event: PoolEvent| {
                    json!({
                        "event": "pool",
                        "kind": short(event.kind().as_str_name(), 3),
                        "cursor": event.cursor,
                        "device": event.device_id,
                        "task": event.task_id,
                    })
                };
                self.watch(&fields, "pool", describe).await
            }
            "watch_rates" => {
                let describe = |event: RateEvent| {
                    json!({
                        "event": "rate",
                        "kind": short(event.kind().as_str_name(), 3),
                        "cursor": event.cursor,
                        "key": event.key,
                    })
                };
                self.watch(&fields, "policy", describe).await
            }
            "http_start" => self.http_start(&fields).await,
            _ => self.stop(&fields),
        }
    }

    async fn watch<E: Event>(
        self: &Arc<Runner>,
        fields: &Fields,
        named: &str,
        describe: impl Fn(E) -> Value + Send + 'static,
    ) -> Answer {
        let connection = self.connection(fields)?;
        let after = fields.optional("after");
        let mut watch = Watch::<E>::open(connection, &fields.text(named), after).await?;
        let (runner, handle) = (self.clone(), fields.text("handle"));
        let task = tokio::spawn(async move {
            loop {
                match watch.next().await {
                    Ok(Watched::Event(event)) => {
                        let mut line = describe(event);
                        line["handle"] = json!(handle);
                        runner.send(line);
                    }
                    Ok(Watched::Lost(error)) => eprintln!("watch lost: {error}"),
                    Ok(Watched::Resumed) => eprintln!("watch resumed"),
                    Err(error) => return eprintln!("watch failed: {error}"),
                }
            }
        });
        self.insert(fields, Object::Task(task.abort_handle()));
        Ok(json!({}))
    }

    async fn http_start(&self, fields: &Fields) -> Answer {
        let layer = RateLayer::http(self.limiter(fields)?, |request| {
            let caller = request.headers.get("x-caller")?.to_str().ok()?;
            Some(caller.to_owned())
        });
        let app = Router::new().route("/", get(|| async { "ok" })).layer(layer);
        let failed = |error: std::io::Error| CallError {
            code: "INTERNAL",
            message: error.to_string(),
            ..CallError::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let server = tokio::spawn(async move { axum::serve(listener, app).await });
        self.insert(fields, Object::Task(server.abort_handle()));
        Ok(json!({ "url": format!("http://{address}") }))
    }

    fn stop(&self, fields: &Fields) -> Answer {
        let stopped: Option<AbortHandle> =
            match locked(&self.objects).remove(&fields.text("handle")) {
                Some(Object::Task(task)) => Some(task),
                _ => None,
            };
        let task = stopped.ok_or_else(|| unknown(&fields.text("handle")))?;
        task.abort();
        Ok(json!({}))
    }
}
