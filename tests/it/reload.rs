//! The reload of a configuration: a server process, its files, and the commands of an operator.

mod commands;
mod effects;
mod files;
mod keys;
mod limits;
mod under_load;
mod waiting;

use std::{
    fs,
    process::Output,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use crate::support::{
    certificates::{Authority, Files, TlsServer},
    process::run,
    world::{World, redis_url},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server process with a configuration file, and its clients.
pub struct Reloads {
    pub world: World,
    server: TlsServer,
    /// The keys in the file that select the engine.
    engine: String,
    redis: String,
}

impl Reloads {
    /// Starts a server on an engine, with these sections in its file.
    pub async fn start(redis: bool, sections: &str) -> Reloads {
        Reloads::with(redis, "", sections, &[]).await
    }

    /// Does the same with keys at the top of the file, and with flags.
    pub async fn with(redis: bool, top: &str, sections: &str, flags: &[&str]) -> Reloads {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let files = Files::new(&Authority::new("unused").server());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("test-reload-{}-{number}", std::process::id());
        let (engine, redis) = if redis {
            (
                format!("engine = \"{}\"\n", redis_url()),
                format!("[redis]\nkey_prefix = \"{prefix}\"\n"),
            )
        } else {
            (String::new(), String::new())
        };
        files.write("tollgate.toml", &format!("{top}{engine}{redis}{sections}"));
        let path = files.text("tollgate.toml");
        let server = files.serve(&[&["--config", &path], flags].concat()).await;
        let world = World::at(server.server.address()).await;
        let reloads = Reloads { world, server, engine, redis };
        reloads.serving().await;
        reloads
    }

    /// Waits until the store answers.
    async fn serving(&self) {
        let serving = async {
            while !self.status().await.contains("store          up") {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, serving).await.expect("the store answers");
    }

    pub fn files(&self) -> &Files {
        &self.server.files
    }

    /// Replaces the file; the engine stays the same.
    pub fn write(&self, sections: &str) {
        self.write_with("", sections);
    }

    pub fn write_with(&self, top: &str, sections: &str) {
        let text = format!("{top}{}{}{sections}", self.engine, self.redis);
        self.files().write("tollgate.toml", &text);
    }

    /// Runs a command of an operator against the server.
    pub async fn command(&self, arguments: &[&str]) -> Output {
        let address = self.server.server.address();
        run(&[arguments, &["--server", &address]].concat()).await
    }

    /// Reloads the file, which must succeed. Returns what the command prints.
    pub async fn reload(&self) -> String {
        let output = self.command(&["reload"]).await;
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        printed(&output)
    }

    pub async fn status(&self) -> String {
        printed(&self.command(&["status"]).await)
    }

    pub async fn capacity_of(&self, pool: &str) -> u32 {
        self.world.pool(pool).await.usage.unwrap().capacity
    }
}

pub fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns the section of a pool with this capacity.
pub fn pool(name: &str, capacity: u32) -> String {
    format!("[[pool]]\nmatch = \"{name}\"\ncapacity = {capacity}\n")
}

/// Creates a folder whose file is a symlink through `..data`, as Kubernetes mounts a ConfigMap.
pub fn mount(files: &Files, version: &str, text: &str) {
    let folder = files.path(&format!("mount/..{version}"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("tollgate.toml"), text).unwrap();
    let link = |target: &str, name: &str| {
        let (new, name) = (files.path("mount/..new"), files.path("mount").join(name));
        std::os::unix::fs::symlink(target, &new).unwrap();
        fs::rename(new, name).unwrap();
    };
    link(&format!("..{version}"), "..data");
    if fs::symlink_metadata(files.path("mount/tollgate.toml")).is_err() {
        link("..data/tollgate.toml", "tollgate.toml");
    }
}
