//! Scenarios E: failures of common recipes for serial numbers, on both engines.

use std::{collections::BTreeSet, time::Duration};

use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{
    rates::configured,
    sequences::{LAYOUTS, floor, many, named, next, step, try_next},
    world::{START, World},
};

const VALUE_MAX: u64 = i64::MAX as u64;
const DAY: Duration = Duration::from_secs(86_400);

/// Makes one test for each engine, with [`LAYOUTS`].
macro_rules! with_layouts {
    ($($name:ident),* $(,)?) => {
        mod dated_embedded {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() {
                super::$name(super::World::with_rules(false, super::configured(super::LAYOUTS)).await).await
            })*
        }
        mod dated_redis {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() {
                super::$name(super::World::with_rules(true, super::configured(super::LAYOUTS)).await).await
            })*
        }
    };
}

on_both_engines! {
    e1_values_are_compared_as_numbers,
    e2_a_floor_of_17_digits_is_exact,
    e5_no_value_is_below_its_floor,
    e18_a_step_of_zero_or_less_is_refused,
    e19_an_invalid_floor_is_refused_and_not_stored,
    e24_after_the_largest_value_calls_are_out_of_range,
}

with_layouts! {
    e6_the_year_09_keeps_its_zero,
    e9_no_sequence_is_forgotten,
    e15_after_a_hundred_serials_the_next_millisecond_begins,
    e16_a_carry_is_a_valid_time,
    e20_a_floor_far_beyond_the_clock_is_refused,
    e22_a_repeat_gets_the_same_numbers,
}

async fn e1_values_are_compared_as_numbers(world: World) {
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        let value = world.one(floor(22, next("order"))).await;
        assert!(
            seen.last() < Some(&value) && seen.insert(value),
            "{value} is repeated or smaller than an earlier value"
        );
    }
    assert_eq!((seen.first(), seen.last()), (Some(&22), Some(&221)));
}

async fn e2_a_floor_of_17_digits_is_exact(world: World) {
    let least = 25_111_812_000_012_345;
    for i in 0..12 {
        let response = world.next(floor(least, next("order"))).await;
        assert_eq!((response.first, response.floor_applied), (least + i, i == 0));
    }
}

async fn e5_no_value_is_below_its_floor(world: World) {
    let stored = 25_111_812_000_012_345;
    assert_eq!(world.one(floor(stored, next("order"))).await, stored);
    assert_eq!(world.one(floor(stored + 1, next("order"))).await, stored + 1);
    assert_eq!(world.one(floor(stored + 3, next("order"))).await, stored + 3);
    // A floor that the sequence has already passed changes nothing.
    let response = world.next(floor(stored, next("order"))).await;
    assert_eq!((response.first, response.floor_applied), (stored + 4, false));
}

async fn e6_the_year_09_keeps_its_zero(world: World) {
    // The engine's clock shows a time in 2009.
    world.time().set_back(START - 1_258_546_800_123_000).await;
    let response = world.next(many(2, next("stamp"))).await;
    assert_eq!(response.serials, ["09111812200012300", "09111812200012301"]);
    assert_eq!((response.first, response.last), (9_111_812_200_012_300, 9_111_812_200_012_301));
    let response = world.next(floor(9_111_812_300_012_345, next("stamp"))).await;
    assert_eq!(response.serials, ["09111812300012345"]);
    // The same for a layout without a calendar.
    let response = world.next(floor(9_111_812_000_012_345, next("wide"))).await;
    assert_eq!(response.serials, ["09111812000012345"]);
}

async fn e9_no_sequence_is_forgotten(world: World) {
    for name in ["plain", "wide", "day", "year"] {
        let mut last = 0;
        // Idle for years, and used on successive days.
        for days in [0, 1, 0, 40, 1000, 1, 1, 1, 4000] {
            world.advance(days * DAY).await;
            // The embedded engine sweeps once a second.
            if days == 4000 {
                tokio::time::sleep(Duration::from_millis(1200)).await;
            }
            let value = world.one(next(name)).await;
            assert!(value > last, "{name}: {value} after {last}");
            last = value;
        }
        assert_eq!(world.sequence(name).await.last, last);
    }
    for key in world.keys().await.iter().filter(|key| key.contains("sequence")) {
        let ttl = world.tamper(&["TTL", &format!("{{}}:{key}")]).await;
        assert_eq!(ttl, Some(::redis::Value::Int(-1)), "{key}");
    }
}

async fn e15_after_a_hundred_serials_the_next_millisecond_begins(world: World) {
    let mut serials = Vec::new();
    for _ in 0..1000 {
        serials.extend(world.next(next("stamp")).await.serials);
    }
    assert_eq!(serials.len(), 1000);
    assert!(serials.is_sorted_by(|one, next| one < next), "distinct and increasing");
    // Time stands still: each millisecond yields a hundred serials, one after the other.
    for (index, serial) in serials.iter().enumerate() {
        let (millis, number) = (index / 100, index % 100);
        assert_eq!(*serial, format!("260101000000{millis:03}{number:02}"));
        instant(serial);
    }
    // The clock has advanced, but is still behind the numbers.
    world.advance(Duration::from_millis(5)).await;
    assert_eq!(world.next(next("stamp")).await.serials, ["26010100000001000"]);
    world.advance(Duration::from_millis(6)).await;
    assert_eq!(world.next(next("stamp")).await.serials, ["26010100000001100"]);
}

async fn e16_a_carry_is_a_valid_time(world: World) {
    // The last millisecond before midnight: at the end of a month, of a February with 28 and with
    // 29 days, and of a year.
    for (back_from, last, first) in [
        ("2026-01-02T00:00:00Z", "260101235959999", "260102000000000"),
        ("2026-02-01T00:00:00Z", "260131235959999", "260201000000000"),
        ("2026-03-01T00:00:00Z", "260228235959999", "260301000000000"),
        ("2028-02-29T00:00:00Z", "280228235959999", "280229000000000"),
        ("2028-03-01T00:00:00Z", "280229235959999", "280301000000000"),
        ("2030-01-01T00:00:00Z", "291231235959999", "300101000000000"),
    ] {
        let end = humantime::parse_rfc3339(back_from).unwrap();
        let end = end.duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as u64;
        world.time().advance(end - 1000 - world.time().now()).await;
        let name = format!("stamp {last}");
        let serials = world.next(many(1000, next(&name))).await.serials;
        assert_eq!(serials[0], format!("{last}00"));
        assert_eq!(serials[99], format!("{last}99"));
        assert_eq!(serials[100], format!("{first}00"));
        let instants: Vec<_> = serials.iter().map(|serial| instant(serial)).collect();
        assert!(instants.is_sorted(), "{serials:?}");
        // A floor with a second 60 means the next minute.
        let odd = format!("{}60{:05}", &last[..10], 12_345);
        let response = world.next(floor(odd.parse().unwrap(), next("stamp odd"))).await;
        assert_eq!(response.serials, [format!("{first}00")]);
        assert!(response.floor_applied);
        // After the last number of a period, the next period begins.
        let few = world.next(many(150, next(&format!("few {last}")))).await.serials;
        assert_eq!(few[98], format!("20{}/99", &last[..6]));
        assert_eq!(few[99], format!("20{}/01", &first[..6]));
        let month = world.next(many(99, next(&format!("month {last}")))).await.serials;
        assert_eq!(month[98], format!("20{}-99", &last[..4]));
        // Numbers of the next month are available only on the last day of this month.
        let begun = try_next(&world.sequences, next(&format!("month {last}"))).await;
        if last[..4] == first[..4] {
            assert_eq!(begun.unwrap_err().code(), Code::OutOfRange)
        } else {
            assert_eq!(begun.unwrap().serials, [format!("20{}-01", &first[..4])])
        }
    }
}

/// Returns the instant of a serial. Panics if it is not a valid time.
fn instant(serial: &str) -> std::time::SystemTime {
    assert_eq!(serial.len(), 17, "{serial}");
    let part = |from: usize| &serial[from..from + 2];
    let (year, month, day) = (part(0), part(2), part(4));
    let (hour, minute, second, milli) = (part(6), part(8), part(10), &serial[12..15]);
    let text = format!("20{year}-{month}-{day}T{hour}:{minute}:{second}.{milli}Z");
    humantime::parse_rfc3339(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

async fn e18_a_step_of_zero_or_less_is_refused(world: World) {
    assert_eq!(world.one(next("order")).await, 1);
    for bad in [0, -1, i64::MIN] {
        let status = world.refused(step(bad, next("order"))).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        let details = status.get_error_details();
        let fields = &details.bad_request().unwrap().field_violations;
        assert_eq!(fields.iter().map(|bad| bad.field.as_str()).collect::<Vec<_>>(), ["step"]);
    }
    assert_eq!(world.one(next("order")).await, 2);
    let response = world.next(many(3, step(10, next("order")))).await;
    assert_eq!((response.first, response.last, response.step), (12, 32, 10));
}

async fn e19_an_invalid_floor_is_refused_and_not_stored(world: World) {
    for bad in [VALUE_MAX + 1, u64::MAX] {
        let status = world.refused(floor(bad, next("order"))).await;
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("floor"), "{status:?}");
    }
    assert_eq!(world.keys().await, [] as [String; 0]);
    assert_eq!(world.sequence("order").await.last, 0);
    assert_eq!(world.one(next("order")).await, 1);
}

async fn e20_a_floor_far_beyond_the_clock_is_refused(world: World) {
    let before = world.next(next("stamp")).await.serials;
    assert_eq!(before, ["26010100000000000"]);
    // The year 99, a number just beyond one day ahead, and digits that are not a time.
    for (bad, part) in [
        (99_123_123_595_999_999, "1day beyond the engine's clock"),
        (26_010_200_000_000_100, "1day beyond the engine's clock"),
        (99_123_123_596_000_000, "the years 2000 to 2099"),
    ] {
        let status = world.refused(floor(bad, next("stamp"))).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains(part), "{status:?}");
        let details = status.get_error_details();
        assert_eq!(details.bad_request().unwrap().field_violations[0].field, "floor");
    }
    // A large step cannot lead far into the future either.
    let status = world.refused(many(10_000, step(1_000_000, next("stamp")))).await;
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    assert_eq!(status.get_error_details().error_info().unwrap().reason, "PERIOD_EXHAUSTED");
    assert_eq!(world.next(next("stamp")).await.serials, ["26010100000000001"]);
    let response = world.next(floor(26_010_200_000_000_099, next("stamp"))).await;
    assert_eq!(
        (response.serials, response.floor_applied),
        (vec!["26010200000000099".into()], true)
    );
    // This number is the last one until the clock advances.
    assert_eq!(world.refused(next("stamp")).await.code(), Code::OutOfRange);
    world.advance(Duration::from_millis(1)).await;
    assert_eq!(world.next(next("stamp")).await.serials, ["26010200000000100"]);
    // A clock that is set back does not stop a sequence.
    world.time().set_back(3_000_000).await;
    let response = world.next(many(10_000, next("stamp"))).await;
    assert_eq!(response.serials[0], "26010200000000101");
    let status = world.refused(floor(26_010_200_000_020_000, next("stamp"))).await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    // Without a calendar every floor is accepted.
    assert_eq!(
        world.one(floor(99_123_123_595_999_999, next("plain"))).await,
        99_123_123_595_999_999
    );
}

async fn e22_a_repeat_gets_the_same_numbers(world: World) {
    for name in ["plain", "stamp", "day"] {
        let asked = many(3, named("order 17", next(name)));
        let first = world.next(asked.clone()).await;
        assert!(!first.replayed);
        world.next(many(5, next(name))).await;
        world.advance(Duration::from_secs(299)).await;
        let again = world.next(asked.clone()).await;
        let expected =
            tollgate_client::pb::NextSequenceResponse { replayed: true, ..first.clone() };
        assert_eq!(again, expected);
        // The same request id in another sequence is another request.
        let other = world.next(many(3, named("order 17", next(&format!("{name}, other"))))).await;
        assert!(!other.replayed);
        for key in world.keys().await.iter().filter(|key| key.contains("replay")) {
            let left = world.tamper(&["PTTL", &format!("{{}}:{key}")]).await;
            assert!(matches!(left, Some(::redis::Value::Int(1..))), "{key}: {left:?}");
        }
        // An answer is stored for five minutes.
        world.advance(Duration::from_secs(1)).await;
        let later = world.next(asked).await;
        assert!(!later.replayed && later.first > first.last, "{later:?}");
    }
}

async fn e24_after_the_largest_value_calls_are_out_of_range(world: World) {
    let response = world.next(floor(VALUE_MAX - 3, many(2, next("order")))).await;
    assert_eq!((response.first, response.last), (VALUE_MAX - 3, VALUE_MAX - 2));
    for request in
        [many(3, next("order")), step(3, next("order")), floor(VALUE_MAX, many(2, next("order")))]
    {
        let status = world.refused(request).await;
        assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "VALUES_EXHAUSTED");
        assert_eq!(world.sequence("order").await.last, VALUE_MAX - 2, "nothing changed");
    }
    assert_eq!(world.one(next("order")).await, VALUE_MAX - 1);
    assert_eq!(world.one(next("order")).await, VALUE_MAX);
    for _ in 0..2 {
        assert_eq!(world.refused(next("order")).await.code(), Code::OutOfRange);
    }
    // More values than exist.
    let all = many(10_000, step(i64::MAX, next("other")));
    assert_eq!(world.refused(all).await.code(), Code::OutOfRange);
    assert_eq!(world.one(step(i64::MAX, next("other"))).await, VALUE_MAX);
}
