use super::*;

fn budget(limits: NamespaceLimits, servers: u32) -> NamespaceBudget {
    let budget = NamespaceBudget::default();
    let rule = NamespaceRule { pattern: "acme*".to_owned(), limits };
    budget.set(&[rule], servers).unwrap();
    budget
}

#[test]
fn each_namespace_has_its_own_counts_and_others_have_none() {
    let limits = NamespaceLimits { waiting_max: Some(2), ..NamespaceLimits::default() };
    let budget = budget(limits, 1);
    assert!(budget.of(b"").is_none() && budget.of(b"b\x1e").is_none());
    let [one, other] = [&b"acme\x1e"[..], b"acme-2\x1e"].map(|prefix| budget.of(prefix).unwrap());
    let held = [one.waiting().unwrap(), one.waiting().unwrap()];
    let refused = one.waiting().unwrap_err();
    let expected = Error::NamespaceLimit { limit: "waiting_max", value: 2, retry: RETRY };
    assert_eq!(refused, expected);
    let also = other.waiting().unwrap();
    // New limits apply immediately, even to resources that are already in use.
    let limits = NamespaceLimits { waiting_max: Some(3), ..limits };
    budget.set(&[NamespaceRule { pattern: "*".to_owned(), limits }], 1).unwrap();
    let third = budget.of(b"acme\x1e").unwrap().waiting().unwrap();
    assert!(budget.of(b"acme\x1e").unwrap().waiting().is_err());
    drop((held, also, third));
    assert!(!one.counts.is_used());
}

#[test]
fn j24_a_flood_of_names_keeps_the_counts_in_use_and_forgets_the_rest() {
    let limits = NamespaceLimits { waiting_max: Some(2), ..NamespaceLimits::default() };
    let budget = budget(limits, 1);
    let held: Vec<_> = (0..100)
        .map(|number| {
            let used = budget.of(format!("acme-{number}\x1e").as_bytes()).unwrap();
            used.waiting().unwrap()
        })
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let budget = &budget;
            scope.spawn(move || {
                for number in 0..10_000 {
                    budget.of(format!("fresh-{thread}-{number}\x1e").as_bytes());
                    budget.of(format!("acme-{thread}-{number}\x1e").as_bytes());
                }
            });
        }
    });
    let known: usize = budget.shards.iter().map(|shard| shard.load().used.len()).sum();
    assert!(known <= SHARDS * KNOWN_MAX + held.len(), "{known}");
    for number in 0..100 {
        let used = budget.of(format!("acme-{number}\x1e").as_bytes()).unwrap();
        let also = used.waiting().unwrap();
        assert!(used.waiting().is_err(), "its count was forgotten");
        drop(also);
    }
}

#[test]
fn a_second_allows_its_calls_and_exempt_calls_always_pass() {
    let limits = NamespaceLimits {
        calls_per_second: Some(100),
        in_flight_max: Some(1),
        ..NamespaceLimits::default()
    };
    // Two servers share the rate: no test is so slow that 1,000 calls are allowed.
    let used = budget(limits, 2).of(b"acme\x1e").unwrap();
    let calls = (0..1000).map(|_| used.call(false).map(drop));
    let refused: Vec<Error> = calls.filter_map(Result::err).collect();
    assert!((1..=950).contains(&refused.len()), "{}", refused.len());
    let Error::NamespaceLimit { limit, value, retry } = &refused[0] else { panic!() };
    assert_eq!((*limit, *value), ("calls_per_second", 100));
    assert!((1..=20).contains(&retry.0), "{retry:?}");
    let exempt = [used.call(true).unwrap(), used.call(true).unwrap()];
    let Err(Error::NamespaceLimit { limit, .. }) = used.call(false) else { panic!() };
    assert_eq!(limit, "in_flight_max");
    drop(exempt);
}
