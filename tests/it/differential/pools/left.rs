//! The state after a history, compared between both executors.

use super::*;

impl History {
    /// Compares all task records. Returns their number.
    pub(super) async fn compare_state(&mut self, context: &str) -> usize {
        let now = Timestamp(self.twins.time.now());
        let native: BTreeMap<String, String> = self
            .pools
            .iter()
            .flat_map(|(name, pool)| {
                pool.tasks(now).map(|(member, task)| record(name, member, task))
            })
            .collect();

        let mut redis = BTreeMap::new();
        for key in self.twins.time.keys().await.iter().filter(|key| key.contains("}:task:")) {
            let value = self.twins.time.tamper(&["GET", &format!("{{}}:{key}")]).await.unwrap();
            let bytes: Vec<u8> = redis::from_redis_value(value).unwrap();
            let (text, forget) = stored_record(&bytes);
            if forget > now.0 {
                redis.insert(key.clone(), text);
            }
        }
        for key in self.twins.time.keys().await.iter().filter(|key| key.ends_with("}:queued")) {
            let value = self.twins.time.tamper(&["HGETALL", &format!("{{}}:{key}")]).await.unwrap();
            let fields: BTreeMap<Vec<u8>, Vec<u8>> = redis::from_redis_value(value).unwrap();
            for (member, text) in fields {
                let text = String::from_utf8_lossy(&text).into_owned();
                let forget: u64 = text.split(' ').nth(8).unwrap().parse().unwrap();
                if forget == 0 || forget > now.0 {
                    redis.insert(format!("{key}:{}", String::from_utf8_lossy(&member)), text);
                }
            }
        }
        assert_eq!(native, redis, "{context}");

        // Compares all leases, settings, events and tasks. Each temporary key must have a TTL.
        for pool in ["one", "two", "three{}"] {
            let pool = Name::parse(Bytes::from_static(pool.as_bytes())).unwrap();
            let settings = settings(&pool);
            self.agree(&GetPool { pool: pool.clone(), settings }, context).await;
            let after = None;
            self.agree(&ListLeases { pool: pool.clone(), limit: 1000, after }, context).await;
            let after = After { number: Some(0), limit: 1000 };
            self.agree(&ReadEvents { pool: pool.clone(), after }, context).await;
            for left in [false, true] {
                let (pool, after) = (pool.clone(), None);
                self.agree(&ListTasks { pool, left, limit: 1000, after }, context).await;
            }
        }
        for key in self.twins.time.keys().await {
            let ttl = self.twins.time.tamper(&["PTTL", &format!("{{}}:{key}")]).await.unwrap();
            let permanent =
                [":settings", ":queued", ":backlog", ":due"].iter().any(|part| key.ends_with(part));
            let permanent = permanent || key.starts_with("{index:");
            // -2: the key expired after it was listed.
            let lapses = !matches!(ttl, redis::Value::Int(-1));
            assert_eq!(lapses, !permanent, "{context}: {key} {ttl:?}");
        }
        native.len()
    }
}

/// Returns the configured settings of each pool. The retention is longer than the run, since Redis
/// expires keys by real time.
pub(super) fn settings(pool: &Name) -> Settings {
    let (capacity, expiry_grace) = match pool.as_str() {
        "one" => (3, Millis(0)),
        "two" => (2, Millis(500)),
        _ => (4, Millis(1000)),
    };
    Settings {
        capacity,
        lease_duration: Millis(1000),
        expiry_grace,
        paused: false,
        retention: Millis::from_secs(600),
        barging: pool.as_str() == "two",
        max_attempts: 2,
        queued_max: 7,
        history: 40,
        ..Settings::default()
    }
}

/// Returns the record in a task's own key as text, and the time when it is forgotten, in µs.
fn stored_record(bytes: &[u8]) -> (String, u64) {
    let (head, rest) = bytes.split_at(41);
    let numbers: Vec<u64> =
        head[1..].as_chunks().0.iter().map(|n| u64::from_le_bytes(*n)).collect();
    let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let rest = String::from_utf8_lossy(rest);
    (format!("{} {} {rest}", char::from(head[0]), texts.join(" ")), numbers[4])
}

/// Returns the key and the text of a task's record, in the format of the scripts.
fn record(pool: &[u8], member: &[u8], task: &Task) -> (String, String) {
    let (lease, pool) = (&task.lease, String::from_utf8_lossy(pool).replace('}', "%7D"));
    let member = String::from_utf8_lossy(member);
    let (letter, rest) = match &task.state {
        TaskState::New => ("N", String::new()),
        TaskState::Leased if task.is_disclosed => ("l", String::new()),
        TaskState::Leased => ("L", String::new()),
        TaskState::Failed => ("F", String::new()),
        TaskState::Completed { outcome, result } => {
            let outcome = if *outcome == Outcome::Succeeded { 1 } else { 2 };
            ("D", format!("{outcome}{}", String::from_utf8_lossy(result)))
        }
        TaskState::Evicted { reason } => ("E", String::from_utf8_lossy(reason).into_owned()),
    };
    let times = [lease.token, lease.grant.0, lease.expire.0, task.slot_end.0]
        .map(|time| time.to_string())
        .join(" ");
    let Some(queued) = &task.queued else {
        let key = format!("{{admission:{pool}}}:task:{member}");
        return (key, format!("{letter} {times} {} {rest}", task.forget.0));
    };
    let (standing, forget) = match queued.standing {
        QueueState::Cancelled => ("C", task.forget.0),
        QueueState::Dead => ("X", task.forget.0),
        QueueState::Expired => ("T", task.forget.0),
        QueueState::Queued => ("Q", 0),
    };
    let Queued { attempt, at, ends, payload, .. } = &**queued;
    let ends = ends.map_or(0, |ends| ends.0);
    let (at, payload) = (at.0, String::from_utf8_lossy(payload));
    let text = format!("{standing}{letter} {times} {attempt} {at} {ends} {forget} {payload}");
    (format!("{{admission:{pool}}}:queued:{member}"), text)
}
