//! Resource use of processes: CPU from /proc, script calls from Redis's statistics.

use std::{fs, time::Instant};

use tollgate_core::time::monotonic;

/// Process of a row, and its Redis, or the primaries of its Cluster.
pub(crate) struct Meter {
    server: u32,
    redis: Vec<(u32, redis::Connection)>,
}

/// Resources used up to a time, or between two times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    at: Instant,
    /// CPU of the server in ns.
    pub(crate) server: u64,
    /// CPU of Redis in ns.
    pub(crate) redis: u64,
    /// CPU of this process in ns.
    pub(crate) generator: u64,
    /// Script calls in Redis.
    pub(crate) scripts: u64,
    /// Time of these script calls in µs, by Redis's statistics.
    pub(crate) scripts_micros: u64,
}

impl Meter {
    pub(crate) fn new(server: u32, redis: impl IntoIterator<Item = (u32, u16)>) -> Meter {
        let connect = |(id, port): (u32, u16)| {
            let client = redis::Client::open(format!("redis://127.0.0.1:{port}"));
            (id, client.expect("a sound URL").get_connection().expect("Redis answers"))
        };
        Meter { server, redis: redis.into_iter().map(connect).collect() }
    }

    pub(crate) fn read(&mut self) -> Reading {
        let (mut scripts, mut scripts_micros) = (0, 0);
        for (_, connection) in &mut self.redis {
            let (calls, micros) = script_calls(connection);
            (scripts, scripts_micros) = (scripts + calls, scripts_micros + micros);
        }
        Reading {
            at: monotonic(),
            server: cpu(self.server),
            redis: self.redis.iter().map(|(id, _)| cpu(*id)).sum(),
            generator: cpu(std::process::id()),
            scripts,
            scripts_micros,
        }
    }
}

impl Reading {
    /// Resources used between an earlier reading and this one.
    pub(crate) fn since(&self, earlier: &Reading) -> Reading {
        Reading {
            at: self.at,
            server: self.server - earlier.server,
            redis: self.redis - earlier.redis,
            generator: self.generator - earlier.generator,
            scripts: self.scripts - earlier.scripts,
            scripts_micros: self.scripts_micros - earlier.scripts_micros,
        }
    }

    /// Seconds between an earlier reading and this one.
    pub(crate) fn seconds_since(&self, earlier: &Reading) -> f64 {
        (self.at - earlier.at).as_secs_f64()
    }
}

/// CPU time of all threads of a process, in ns. Ignores threads that end during the reading.
pub(crate) fn cpu(process: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("the process runs");
    let used = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    used.sum()
}

/// Returns the number of script calls in Redis, and their time in µs with all commands in them.
fn script_calls(connection: &mut redis::Connection) -> (u64, u64) {
    let text: String =
        redis::cmd("INFO").arg("commandstats").query(connection).expect("Redis answers");
    let lines = text.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
    let scripts = lines.filter(|(name, _)| ["evalsha", "eval", "fcall"].contains(name));
    scripts.fold((0, 0), |(calls, micros), (_, fields)| {
        (calls + field(fields, "calls="), micros + field(fields, "usec="))
    })
}

fn field(fields: &str, name: &str) -> u64 {
    let value = fields.split(',').find_map(|field| field.strip_prefix(name));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}
