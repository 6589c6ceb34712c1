//! The listings of names of both engines after the same random history: the same names, and the
//! same outcome of each read.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use bytes::Bytes;
use tollgate_core::{
    Decision,
    lock::GetLock,
    names::{Name, Namespace},
    sequence::GetSequence,
    stock::GetStock,
    time::monotonic,
};
use tollgate_engine::{NameQuery, embedded::Tabled};

use crate::durable::export::{history::History, sides::Side};

const STEPS: usize = 3000;
const NAMESPACES: [&str; 3] = ["", "acme", "acme-2"];

/// Returns the partitions of a listing, each with the outcome of its read as text; `None` if it is
/// not read.
async fn listed<D>(
    side: &Side,
    query: &NameQuery,
    read: impl Fn(Bytes) -> Option<D>,
) -> BTreeMap<Bytes, Option<String>>
where
    D: Decision<State: Tabled>,
{
    let (names, mut query) = (Mutex::new(BTreeMap::new()), query.clone());
    loop {
        let deadline = monotonic() + Duration::from_secs(60);
        let note = |partition: Bytes| {
            names.lock().unwrap().insert(partition.clone(), None);
            read(partition)
        };
        let (entries, next) = side.engine.list_names(&query, deadline, note).await.unwrap();
        for (decision, outcome) in entries {
            let partition = Bytes::copy_from_slice(decision.partition());
            names.lock().unwrap().insert(partition, Some(format!("{outcome:?}")));
        }
        query.after = next;
        if query.after.is_none() {
            return names.into_inner().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_engines_list_the_same_names() {
    let seed = rand::random();
    println!("seed {seed}");
    let namespaces = NAMESPACES.map(|text| Namespace::parse(text.as_bytes()).unwrap());
    let mut history = History::new(seed).within(&namespaces);
    let (embedded, redis) = (Side::in_memory(history.now), Side::redis(history.now).await);
    history.play(&[&embedded, &redis], STEPS, seed).await;
    let name = |partition| Name::stored(partition).ok();
    for namespace in namespaces {
        for (prefix, limit) in [("", 1), ("", 1000), ("t", 3)] {
            let (namespace, prefix) = (namespace.clone(), Bytes::from(prefix));
            let query = NameQuery { namespace, prefix, limit, after: None };
            let [locks, others] = [&embedded, &redis]
                .map(|side| listed(side, &query, |it| Some(GetLock { name: name(it)? })));
            let (locks, others) = (locks.await, others.await);
            // A lock that was free for 5 minutes leaves Redis later, since time is stepped.
            let is_held = |text: &&Option<String>| !format!("{text:?}").contains("holder: None");
            let held = |all: &BTreeMap<Bytes, Option<String>>| -> BTreeMap<Bytes, Option<String>> {
                let held = all.iter().filter(|(_, text)| is_held(text));
                held.map(|(name, text)| (name.clone(), text.clone())).collect()
            };
            assert_eq!(held(&locks), held(&others), "seed {seed}: {query:?}");
            assert!(locks.keys().all(|lock| query.namespace.contains(lock)));

            let [skus, others] = [&embedded, &redis]
                .map(|side| listed(side, &query, |it| Some(GetStock { sku: name(it)? })));
            let skus = skus.await;
            assert_eq!(skus, others.await, "seed {seed}: {query:?}");
            let [sequences, others] =
                [&embedded, &redis].map(|side| listed(side, &query, |_| None::<GetSequence>));
            let sequences = sequences.await;
            assert_eq!(sequences, others.await, "seed {seed}: {query:?}");
            assert!(query.prefix.len() == 1 || !skus.is_empty() && !sequences.is_empty());
        }
    }
}
