//! A web service whose callers are limited by the policy `api`.
//!
//! `cargo run --example web_service`, with a server on 127.0.0.1:50051 that has the policy. Then
//! `curl -i -H 'x-api-key: me' http://127.0.0.1:8080/`.

use std::error::Error;

use axum::{Router, routing::get};
use tokio::net::TcpListener;
use tollgate_client::{Connection, RateLayer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("TOLLGATE_URL").unwrap_or("http://127.0.0.1:50051".to_owned());
    let connection = Connection::open(&url).await?;
    // The service stays available while no server of Tollgate answers.
    let limiter = connection.limiter("api").fail_open();
    let layer = RateLayer::http(limiter, |request| {
        let key = request.headers.get("x-api-key")?.to_str().ok()?;
        Some(format!("key:{key}"))
    });
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(layer);
    let listener = TcpListener::bind("127.0.0.1:8080").await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}
