//! Design targets, their measured values, and whether they are met.

use crate::{
    besides::Besides,
    crowd::Crowd,
    envoy::Envoy,
    kind::Kind,
    peers::{PEERS, Store},
    results::Results,
    row::{ECHO, EMBEDDED, LANES, PER_CALL},
    table::{Table, or_dash, percent, time},
};

/// The bound of a target.
#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

struct Targets {
    table: Table,
}

/// Returns all targets that this run has measured.
pub(crate) fn table(results: &Results, besides: &Besides) -> Table {
    let mut targets = Targets { table: Table::new(["what", "target", "measured", "met"]) };
    targets.of_echo(results);
    targets.of_peers(results, besides);
    targets.of_envoy(besides);
    targets.of_storms(results);
    targets.of_redis(results, besides);
    targets.of_besides(results, besides);
    targets.table
}

fn times(value: f64) -> String {
    format!("{value:.2} ×")
}

fn micros(value: f64) -> String {
    format!("{value:.1} µs")
}

impl Targets {
    fn add(&mut self, what: &str, bound: Bound, value: Option<f64>, show: fn(f64) -> String) {
        let (sign, limit) = match bound {
            Bound::AtLeast(limit) => ("≥", limit),
            Bound::AtMost(limit) => ("≤", limit),
        };
        let value = value.filter(|value| value.is_finite());
        let met = value.map(|value| match bound {
            Bound::AtLeast(limit) => value >= limit,
            Bound::AtMost(limit) => value <= limit,
        });
        let met = met.map_or("–", |met| if met { "yes" } else { "**no**" });
        let target = format!("{sign} {}", show(limit));
        self.table.line([what.to_owned(), target, or_dash(value, show), met.to_owned()]);
    }

    fn of_echo(&mut self, results: &Results) {
        let pairs = |in_flight, row, to| results.ratio(Kind::Pairs, in_flight, row, to);
        self.add(
            "embedded relative to echo, AdmitTask + CompleteTask, 256",
            Bound::AtLeast(0.9),
            pairs(256, EMBEDDED, ECHO),
            percent,
        );
        self.add(
            "Redis relative to echo, AdmitTask + CompleteTask, 256",
            Bound::AtLeast(0.45),
            pairs(256, LANES, ECHO),
            percent,
        );
        self.add(
            "Redis, lanes, relative to one decision per script call, 256",
            Bound::AtLeast(3.0),
            pairs(256, LANES, PER_CALL),
            times,
        );
        self.add(
            "Redis relative to echo, AdmitTask + CompleteTask, 1,024",
            Bound::AtLeast(0.55),
            pairs(1024, LANES, ECHO),
            percent,
        );
        for kind in [Kind::Fixed, Kind::Bucket] {
            for in_flight in [64, 256, 1024] {
                let what = format!("Redis relative to echo, {}, {in_flight}", kind.title());
                let value = results.ratio(kind, in_flight, LANES, ECHO);
                self.add(&what, Bound::AtLeast(0.6), value, percent);
            }
        }
    }

    /// Compares with the fastest peer of each store, by our load closest to its call.
    fn of_peers(&mut self, results: &Results, besides: &Besides) {
        let least = |row: &'static str, store: Store| {
            let theirs = PEERS.iter().filter(|peer| peer.store == store);
            let ratios = theirs.filter_map(|peer| results.ratio(peer.kind, 256, row, peer.name));
            ratios.reduce(f64::min)
        };
        self.add(
            "embedded relative to the fastest peer in memory, 256, our own load, one thread",
            Bound::AtLeast(1.8),
            least(EMBEDDED, Store::Memory),
            times,
        );
        let theirs = PEERS.iter().filter(|peer| peer.store == Store::Memory);
        let ratios =
            theirs.filter_map(|peer| besides.by_h2load.ratio(peer.kind, EMBEDDED, peer.name));
        self.add(
            "the same with h2load, two threads, one key",
            Bound::AtLeast(1.8),
            ratios.reduce(f64::min),
            times,
        );
        self.add(
            "Redis relative to the fastest peer in memory, 256",
            Bound::AtLeast(1.0),
            least(LANES, Store::Memory),
            times,
        );
        self.add(
            "Redis relative to the fastest peer on Redis, 256",
            Bound::AtLeast(7.0),
            least(LANES, Store::Redis),
            times,
        );
    }

    /// Compares with envoyproxy/ratelimit, by the worst of all loads with 64 calls in flight.
    fn of_envoy(&mut self, besides: &Besides) {
        let rate = besides.envoy.as_ref().and_then(Envoy::rate);
        let cpu = besides.envoy.as_ref().and_then(Envoy::cpu);
        let what = "ShouldRateLimit relative to envoyproxy/ratelimit, 64: calls a second";
        self.add(what, Bound::AtLeast(5.0), rate, times);
        let outage = besides.envoy.as_ref().and_then(Envoy::outage);
        let what = "ShouldRateLimit: p99 of UNAVAILABLE while Redis is not running";
        self.add(what, Bound::AtMost(5000.0), outage, time);
        let what = "ShouldRateLimit relative to envoyproxy/ratelimit, 64: CPU of the server";
        self.add(what, Bound::AtMost(0.2), cpu, times);
    }

    fn of_storms(&mut self, results: &Results) {
        for kind in Kind::ALL {
            let Some(granted) = kind.granted() else { continue };
            for row in [EMBEDDED, LANES] {
                let here = (*kind, 256, row);
                let part = results.rate(here).zip(results.rate((granted, 256, row)));
                let what = format!("{row}, {}, relative to the granted path, 256", kind.title());
                let part = part.map(|(refused, granted)| refused / granted);
                self.add(&what, Bound::AtLeast(1.0), part, times);
            }
            let what = format!("Redis relative to echo, {}, 256", kind.title());
            let value = results.ratio(*kind, 256, LANES, ECHO);
            self.add(&what, Bound::AtLeast(0.9), value, percent);
            let what = format!("script calls for 100 calls, {}, 256", kind.title());
            let value = results.median((*kind, 256, LANES), |run| run.scripts * 100.0);
            self.add(&what, Bound::AtMost(1.0), value, |value| format!("{value:.2}"));
        }
    }

    fn of_redis(&mut self, results: &Results, besides: &Besides) {
        for kind in [Kind::Pairs, Kind::Fixed] {
            let p50 = |row| results.median((kind, 1, row), |run| run.p50);
            let value = p50(LANES).zip(p50(ECHO)).zip(besides.ping);
            let value = value.map(|((redis, echo), ping)| redis / (echo + ping));
            let what =
                format!("one caller, {}: p50 relative to echo's plus a PING's", kind.title());
            self.add(&what, Bound::AtMost(1.3), value, times);
        }
        for (kind, most) in [(Kind::Pairs, 5.0), (Kind::Fixed, 2.5)] {
            let here = (kind, 1024, LANES);
            let value = results.median(here, |run| run.script);
            let held = or_dash(results.median(here, |run| 1.0 / run.scripts), |calls| {
                format!("{calls:.0}")
            });
            let what = format!(
                "Redis's time for a decision, {}, 1,024 ({held} a script call)",
                kind.title()
            );
            self.add(&what, Bound::AtMost(most), value, micros);
        }
    }

    fn of_besides(&mut self, results: &Results, besides: &Besides) {
        for (row, most) in [(EMBEDDED, 2000.0), (LANES, 3000.0)] {
            let value = besides.pace(row).map(|pace| pace.p99);
            let echo = or_dash(besides.pace(ECHO).map(|pace| pace.p99), time);
            let what = format!("{row}: p99 at half its peak, pairs (the echo's: {echo})");
            self.add(&what, Bound::AtMost(most), value, time);
        }
        let peak = results.peak(Kind::Pairs, LANES);
        let value = besides.overload.as_ref().zip(peak).map(|(run, peak)| run.rate / peak);
        self.add(
            "Redis: goodput at three times its capacity, relative to the peak",
            Bound::AtLeast(0.8),
            value,
            percent,
        );
        self.add(
            "embedded: server time per CheckRate with 1,000,000 keys, relative to 1,000",
            Bound::AtMost(1.5),
            besides.crowd.as_ref().and_then(|crowd| crowd.as_ref().ok()).map(Crowd::ratio),
            times,
        );
        let idle = besides.idle.as_ref();
        let resident = idle.map(|idle| idle.resident_mb);
        self.add("idle, embedded: resident", Bound::AtMost(15.0), resident, |mb| {
            format!("{mb:.1} MB")
        });
        let cpu = idle.map(|idle| idle.cpu * 100.0);
        self.add("idle, embedded: CPU", Bound::AtMost(0.1), cpu, |cpu| format!("{cpu:.2} %"));
        let start = idle.map(|idle| idle.start_ms);
        self.add("embedded: start to SERVING", Bound::AtMost(50.0), start, |ms| {
            format!("{ms:.0} ms")
        });
        let connection = idle.map(|idle| idle.connection_kb);
        self.add(
            "memory per connection, with 10,000 idle ones",
            Bound::AtMost(20.0),
            connection,
            |kb| format!("{kb:.1} KB"),
        );
    }
}
