//! WatchRates: a watcher of a policy receives every notice and every ban, on both engines.

use std::time::Duration;

use pb::RateEventKind::{self, Banned, Gap, Throttled, Unbanned, Warned};
use tokio::time::timeout;
use tollgate_client::{Connection, Watch, Watched, pb};
use tonic::{Code, Request, Streaming};
use tonic_types::StatusExt;

use crate::support::{
    rates::{configured, cost, crawlers, under},
    world::{Rates, START, World, duration, micros},
};

const PATIENCE: Duration = Duration::from_secs(60);
const MINUTE: Duration = Duration::from_secs(60);

/// Policies with all levels. Some names resemble shards of other policies.
const POLICIES: [&str; 6] = ["p", "q", "p/05", "p/05/05", "p}", "/05"];

on_both_engines! {
    every_level_is_one_event_per_window,
    bans_and_unbans_of_an_operator_are_events,
    a_call_without_effect_is_no_event,
    a_watch_resumes_after_any_cursor,
    a_gap_event_comes_before_the_stored_events,
    a_watch_gets_events_of_its_policy_only,
    an_unknown_policy_or_an_invalid_cursor_is_refused,
}

/// Returns a world on the same engine, with the policies.
async fn with_policies(world: World) -> World {
    let policy = |name: &str| {
        format!(
            "[[policy]]\nname = \"{name}\"\n\
             limit = [{{ window = \"1m\", algorithm = \"FIXED_WINDOW\" }}]\n\
             tier = [{{ above = 2, action = \"WARN\" }}, {{ above = 4, action = \"THROTTLE\" }},\n\
             {{ above = 6, action = \"BAN\", ban_durations = [\"2m\", \"5m\"] }}]\n"
        )
    };
    let rules = configured(&POLICIES.map(policy).concat());
    World::with_rules(world.is_redis(), rules).await
}

/// A stream of a policy's events.
pub struct Events(Streaming<pb::WatchRatesResponse>);

impl Events {
    pub async fn watch(rates: &Rates, policy: &str, after: Option<&str>) -> Events {
        let after = after.map(str::to_owned);
        let request = pb::WatchRatesRequest { policy: policy.into(), after };
        Events(rates.clone().watch_rates(request).await.unwrap().into_inner())
    }

    /// Returns the next event, or the status that ends the stream.
    pub async fn try_next(&mut self) -> Result<pb::RateEvent, tonic::Status> {
        let next = timeout(PATIENCE, self.0.message()).await.expect("an event comes");
        Ok(next?.expect("the stream ended without a status").event.unwrap())
    }

    async fn next(&mut self) -> pb::RateEvent {
        self.try_next().await.expect("the stream ended")
    }

    async fn take(&mut self, number: usize) -> Vec<pb::RateEvent> {
        let mut events = Vec::new();
        for _ in 0..number {
            events.push(self.next().await);
        }
        events
    }

    /// Returns the next `number` events. The event after them must be a ban that is set now.
    async fn exactly(&mut self, number: usize, world: &World, policy: &str) -> Vec<pb::RateEvent> {
        let events = self.take(number).await;
        world.advance(Duration::from_millis(1)).await;
        ban(world, policy, "the end", "").await;
        assert_eq!(self.next().await.key, "the end");
        events
    }
}

async fn ban(world: &World, policy: &str, key: &str, actor: &'static str) -> pb::Ban {
    let mut request = Request::new(pb::BanRequest {
        key: key.into(),
        policy: policy.into(),
        duration: Some(duration(MINUTE)),
        reason: "scraping".into(),
    });
    request.metadata_mut().insert("x-tollgate-actor", actor.parse().unwrap());
    world.rates.clone().ban(request).await.unwrap().into_inner().ban.unwrap()
}

async fn unban(world: &World, policy: &str, key: &str, actor: &'static str) -> bool {
    let request = pb::UnbanRequest { key: key.into(), policy: policy.into() };
    let mut request = Request::new(request);
    request.metadata_mut().insert("x-tollgate-actor", actor.parse().unwrap());
    world.rates.clone().unban(request).await.unwrap().into_inner().existed
}

/// Events of several keys by time: concurrent reads may change their order.
fn by_time(mut events: Vec<pb::RateEvent>) -> Vec<pb::RateEvent> {
    events.sort_by_key(|event| micros(event.event_time));
    events
}

fn kinds(events: &[pb::RateEvent]) -> Vec<(RateEventKind, &str)> {
    events.iter().map(|event| (event.kind(), &*event.key)).collect()
}

async fn every_level_is_one_event_per_window(world: World) {
    let world = with_policies(world).await;
    let mut live = Events::watch(&world.rates, "p", None).await;
    for strike in 1..=3 {
        let mut expected = Vec::new();
        for call in 1..=20 {
            world.advance(Duration::from_millis(1)).await;
            let answer = world.ask(under("k", "p")).await;
            if answer.crossed {
                expected.push((world.time().now(), call, answer.ban));
            }
        }
        let told = live.exactly(3, &world, "p").await;
        assert_eq!(kinds(&told), [(Warned, "k"), (Throttled, "k"), (Banned, "k")]);
        for (event, (time, call, ban)) in told.iter().zip(expected) {
            assert_eq!((micros(event.event_time), event.count), (time, call));
            assert_eq!((event.above, &*event.actor), (Some(call - 1), ""));
            assert_eq!(event.ban, ban);
        }
        let ban = told[2].ban.clone().unwrap();
        assert_eq!((ban.strikes, &*ban.reason, &*ban.key), (strike, "above 6", "k"));
        // The end of a ban is not an event, and neither is the end of a window.
        world.advance(6 * MINUTE).await;
    }
}

async fn bans_and_unbans_of_an_operator_are_events(world: World) {
    let world = with_policies(world).await;
    let mut live = Events::watch(&world.rates, "p", None).await;
    let first = ban(&world, "p", "k", "ann").await;
    world.advance(Duration::from_secs(1)).await;
    let second = ban(&world, "p", "k", "bob").await;
    assert!(unban(&world, "p", "k", "eve").await && !unban(&world, "p", "k", "eve").await);
    let third = ban(&world, "p", "k", "").await;
    world.advance(MINUTE).await;
    assert!(!unban(&world, "p", "k", "eve").await, "the ban had ended before");
    let told = live.exactly(4, &world, "p").await;
    let kinds: Vec<RateEventKind> = told.iter().map(pb::RateEvent::kind).collect();
    assert_eq!(kinds, [Banned, Banned, Unbanned, Banned]);
    let bans: Vec<_> = told.iter().map(|event| event.ban.clone()).collect();
    assert_eq!(bans, [Some(first), Some(second), None, Some(third)]);
    assert_eq!(told.iter().map(|event| &*event.actor).collect::<Vec<_>>(), ["", "", "eve", ""]);
    assert!(told.iter().all(|event| event.above.is_none() && event.count == 0));
    let times: Vec<u64> = told.iter().map(|event| micros(event.event_time)).collect();
    assert_eq!(times, [0, 1_000_000, 1_000_000, 1_000_000].map(|since| START + since));

    // The same events from the client library.
    let connection = Connection::open(&world.address).await.unwrap();
    let mut watch =
        Watch::<pb::RateEvent>::open(connection.clone(), "p", Some("0".to_owned())).await.unwrap();
    for event in told {
        let Ok(Watched::Event(same)) = watch.next().await else { panic!("no event") };
        assert_eq!(same, event);
    }
    let refused = Watch::<pb::RateEvent>::open(connection, "none", None).await.unwrap_err();
    assert_eq!(refused.code, "NOT_FOUND");
}

async fn a_call_without_effect_is_no_event(world: World) {
    let world = with_policies(world).await;
    let mut live = Events::watch(&world.rates, "p", None).await;
    let named = |request: &str, check| pb::CheckRateRequest { request_id: request.into(), ..check };
    for _ in 0..3 {
        // The call crosses a level once, and its repeats get the same answer.
        let answer = world.ask(named("r", cost(3, under("k", "p")))).await;
        assert!(answer.crossed);
        assert!(!world.ask(cost(0, under("k", "p"))).await.crossed);
    }
    for _ in 0..20 {
        world.check("k", &crawlers(pb::Algorithm::FixedWindow)).await;
        world.ask(under("k", "q")).await;
    }
    assert!(world.reset("k", "p").await);
    ban(&world, "", "k", "").await;
    assert!(unban(&world, "", "k", "").await && !unban(&world, "p", "k", "").await);
    assert_eq!(kinds(&live.exactly(1, &world, "p").await), [(Warned, "k")]);
    // A batch has independent checks.
    let checks = (0..100).map(|call| under(&format!("b{}", call % 2), "p")).collect();
    let request = pb::CheckRatesRequest { checks };
    let results = world.rates.clone().check_rates(request).await.unwrap().into_inner().results;
    assert_eq!(results.iter().filter(|result| result.crossed).count(), 6);
    let told = live.exactly(6, &world, "p").await;
    for key in ["b0", "b1"] {
        let of_key = told.iter().filter(|event| event.key == key).map(pb::RateEvent::kind);
        assert_eq!(of_key.collect::<Vec<_>>(), [Warned, Throttled, Banned], "{key}");
    }
}

async fn a_watch_resumes_after_any_cursor(world: World) {
    let world = with_policies(world).await;
    let mut live = Events::watch(&world.rates, "p", None).await;
    for number in 0..300 {
        world.advance(Duration::from_millis(1)).await;
        ban(&world, "p", &format!("k{}", number % 97), "").await;
    }
    let told = live.take(300).await;
    let expected: Vec<String> = (0..300).map(|number| format!("k{}", number % 97)).collect();
    assert!(by_time(told.clone()).iter().map(|event| &event.key).eq(&expected));
    for at in [0, 1, 30, 128, 298] {
        let mut resumed = Events::watch(&world.rates, "p", Some(&told[at].cursor)).await;
        let left = by_time(resumed.take(299 - at).await);
        assert_eq!(kinds(&left), kinds(&by_time(told[at + 1..].to_vec())), "after {at}");
    }
    drop(live);
    let mut all = Events::watch(&world.rates, "p", Some("0")).await;
    assert_eq!(kinds(&all.take(300).await), kinds(&by_time(told)));
}

async fn a_gap_event_comes_before_the_stored_events(world: World) {
    let world = with_policies(world).await;
    let mut live = Events::watch(&world.rates, "p", None).await;
    ban(&world, "p", "other", "").await;
    ban(&world, "p", "k", "").await;
    let told = live.take(2).await;
    drop(live);
    let mut last = 0;
    for _ in 0..1200 {
        world.advance(Duration::from_millis(1)).await;
        last = micros(ban(&world, "p", "k", "").await.until);
    }
    // One cursor has a position in the key's shard, the other one has none.
    for cursor in told.iter().map(|event| &event.cursor) {
        let mut late = Events::watch(&world.rates, "p", Some(cursor)).await;
        let gap = late.next().await;
        assert_eq!(gap.kind(), Gap);
        assert!(gap.event_time.is_none() && gap.key.is_empty());
        let mut resumed = Events::watch(&world.rates, "p", Some(&gap.cursor)).await;
        let kept = late.take(1000).await;
        assert_eq!(kept, resumed.take(1000).await);
        let mut rest = kept.last().cloned();
        while rest.clone().and_then(|event| event.ban).is_some_and(|ban| micros(ban.until) < last) {
            rest = Some(late.next().await);
        }
    }
}

async fn a_watch_gets_events_of_its_policy_only(world: World) {
    let world = with_policies(world).await;
    let mut streams = Vec::new();
    for policy in POLICIES {
        streams.push(Events::watch(&world.rates, policy, None).await);
    }
    let keys = ["k", "05", "/05", "k}", "a b", "%"];
    for (policy, key) in POLICIES.iter().flat_map(|policy| keys.map(|key| (policy, key))) {
        world.advance(Duration::from_millis(1)).await;
        // The first call of this policy and key.
        assert!(world.ask(under(key, policy)).await.allowed);
        assert_eq!(ban(&world, policy, key, "").await.strikes, 1, "{policy} {key}");
    }
    for (policy, events) in POLICIES.iter().zip(&mut streams) {
        let told = events.exactly(keys.len(), &world, policy).await;
        assert_eq!(kinds(&by_time(told)), keys.map(|key| (Banned, key)));
    }
}

async fn an_unknown_policy_or_an_invalid_cursor_is_refused(world: World) {
    let world = with_policies(world).await;
    let watch = async |policy: &str, after: Option<&str>| {
        let after = after.map(str::to_owned);
        let request = pb::WatchRatesRequest { policy: policy.into(), after };
        world.rates.clone().watch_rates(request).await.unwrap_err()
    };
    let unknown = watch("none", None).await;
    assert_eq!(unknown.code(), Code::NotFound);
    assert_eq!(unknown.get_error_details().error_info().unwrap().reason, "POLICY_NOT_FOUND");
    let mut live = Events::watch(&world.rates, "p", None).await;
    ban(&world, "p", "k", "").await;
    let cursor = live.next().await.cursor;
    for after in ["", "1", "00", "x", "=", &cursor[1..], &format!("{cursor}AA")] {
        for policy in ["", "p"] {
            let refused = watch(policy, Some(after)).await;
            assert_eq!(refused.code(), Code::InvalidArgument, "{after:?}");
            let details = refused.get_error_details();
            let fields = details.bad_request().unwrap().field_violations.iter();
            let fields: Vec<&str> = fields.map(|bad| &*bad.field).collect();
            assert_eq!(
                fields,
                if policy.is_empty() { &["policy", "after"][..] } else { &["after"] }
            );
        }
    }
}
