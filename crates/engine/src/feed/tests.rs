mod world;

use tokio::time::{sleep, timeout};

use super::*;
use world::{MOST, Numbers, Told, WATCHERS_MAX, World};

const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the next messages.
async fn take(watcher: &mut Watcher<Numbers>, number: usize) -> Vec<Told> {
    let mut told = Vec::new();
    for _ in 0..number {
        let next = timeout(PATIENCE, watcher.next()).await.expect("something comes");
        told.push(next.expect("the watcher continues"));
    }
    told
}

/// Returns the next events, without their cursors.
async fn events(watcher: &mut Watcher<Numbers>, number: usize) -> Vec<u64> {
    let told = take(watcher, number).await.into_iter();
    told.map(|(event, _)| event.expect("no gap")).collect()
}

#[tokio::test]
async fn several_histories_are_merged_and_any_cursor_can_be_resumed() {
    let world = World::new();
    world.append(0, 3);
    let mut live = world.watch(Start::Now).await;
    let mut expected = Vec::new();
    for round in 0..200 {
        expected.extend(world.append(round % 2, 1 + round % 3));
    }
    let told = take(&mut live, expected.len()).await;
    assert_eq!(told.iter().map(|told| told.0).collect::<Vec<_>>(), {
        expected.iter().copied().map(Some).collect::<Vec<_>>()
    });
    for at in [0, 1, 57, 200, expected.len() - 1] {
        let start = Start::After(told[at].1.clone().into());
        let mut resumed = world.watch(start).await;
        let left = &expected[at + 1..];
        assert_eq!(events(&mut resumed, left.len()).await, left, "after {at}");
    }
    let mut all = world.watch(Start::Oldest).await;
    assert_eq!(events(&mut all, expected.len() + 3).await[3..], expected);
}

#[tokio::test]
async fn a_watcher_that_starts_while_events_arrive_misses_none() {
    let world = Arc::new(World::new());
    let mut live = world.watch(Start::Now).await;
    let appending = {
        let world = world.clone();
        tokio::spawn(async move {
            for _ in 0..300 {
                world.append(0, 7);
                world.append(1, 3);
                sleep(Duration::from_millis(1)).await;
            }
        })
    };
    let all = events(&mut live, 1500).await;
    let mut late = world.watch(Start::Now).await;
    let mut again = world.watch(Start::Oldest).await;
    let rest = events(&mut late, 1).await[0];
    let ahead = events(&mut live, 1500).await;
    assert!([&all[..], &ahead].concat().contains(&rest));
    let from = ahead
        .iter()
        .position(|event| *event == rest)
        .expect("the events from then on are received");
    let left = ahead.len() - from - 1;
    assert_eq!(events(&mut late, left).await, ahead[from + 1..]);
    assert_eq!(events(&mut again, 3000).await, [all, ahead].concat());
    appending.await.expect("it appends");
}

#[tokio::test]
async fn a_thousand_watchers_are_served_by_one_reader() {
    let world = World::new();
    let mut watchers = Vec::new();
    for _ in 0..1000 {
        watchers.push(world.watch(Start::Now).await);
    }
    assert_eq!(world.feeds.count(), 1);
    let (before, start) = (world.reads(), monotonic());
    let expected = world.append(1, 500);
    for watcher in &mut watchers {
        assert_eq!(events(watcher, 500).await, expected);
    }
    // Two histories, with a few reads each for the time that has passed, and one more page.
    let most = 2 * (2 + start.elapsed().as_millis() as usize / 100);
    assert!(world.reads() - before <= most, "{} reads", world.reads() - before);
    drop(watchers);
    world.idle().await;
    let before = world.reads();
    sleep(3 * READ_EVERY).await;
    assert_eq!(world.reads(), before, "without watchers, nothing is read");
    let mut next = world.watch(Start::Now).await;
    let expected = world.append(0, 1);
    assert_eq!(events(&mut next, 1).await, expected);
}

#[tokio::test]
async fn a_watcher_that_falls_out_of_the_ring_is_cut_off_and_the_others_continue() {
    let world = World::new();
    let mut slow = world.watch(Start::Now).await;
    let mut fast = world.watch(Start::Now).await;
    let first = world.append(0, 1);
    assert_eq!(events(&mut slow, 1).await, first);
    assert_eq!(events(&mut fast, 1).await, first);
    for _ in 0..RING_MAX / 1000 + 1 {
        let expected = world.append(0, 1000);
        assert_eq!(events(&mut fast, 1000).await, expected);
    }
    assert_eq!(slow.next().await, Err(Error::SlowWatcher));
    drop(slow);
    // Entries that all watchers have read are dropped.
    let expected = world.append(0, 1);
    assert_eq!(events(&mut fast, 1).await, expected);
    let feed = world.feeds.lock().get(&world.topic).cloned().expect("the topic is watched");
    let taken = async {
        while !feed.ring.borrow().is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, taken).await.expect("the ring is empty");
}

#[tokio::test]
async fn a_gap_comes_first_and_only_where_events_are_missing() {
    let world = World::new();
    let kept = MOST as usize;
    world.append(0, 10);
    let mut whole = world.watch(Start::Oldest).await;
    let seen = take(&mut whole, 10).await;
    drop(whole);
    world.append(0, kept + 200);
    world.append(1, 1);
    let mut late = world.watch(Start::After(seen[9].1.clone().into())).await;
    let told = take(&mut late, 2).await;
    assert_eq!(told[0].0, None);
    assert!(told[1].0.is_some());
    let mut resumed = world.watch(Start::After(told[0].1.clone().into())).await;
    assert_eq!(resumed.next().await.expect("the watcher continues"), told[1]);
    // Neither a start at the oldest event nor a stored cursor has a gap.
    let mut all = world.watch(Start::Oldest).await;
    assert!(take(&mut all, 10).await.iter().all(|told| told.0.is_some()));
    drop((late, resumed, all));
    world.idle().await;
    // A history that was empty at the cursor and has lost its first events since.
    world.lose(1);
    let mut live = world.watch(Start::Now).await;
    let expected = world.append(0, 1);
    let cursor = take(&mut live, 1).await.remove(0);
    assert_eq!(cursor.0, Some(expected[0]));
    world.append(1, 3);
    let mut complete = world.watch(Start::After(cursor.1.clone().into())).await;
    assert!(complete.next().await.expect("the watcher continues").0.is_some());
    world.append(1, kept + 200);
    let mut lost = world.watch(Start::After(cursor.1.into())).await;
    assert_eq!(lost.next().await.expect("the watcher continues").0, None);
}

#[tokio::test]
async fn a_live_feed_continues_where_a_history_expired() {
    let world = World::new();
    let mut live = world.watch(Start::Now).await;
    let first = world.append(0, 3);
    let told = take(&mut live, 3).await;
    assert_eq!(told[2].0, Some(first[2]));
    world.lose(0);
    let before = world.reads();
    while world.reads() < before + 4 {
        sleep(Duration::from_millis(5)).await;
    }
    let expected = world.append(0, 2);
    assert_eq!(events(&mut live, 2).await, expected);
    // A watcher with a cursor cannot know that the history only expired.
    world.lose(0);
    let mut resumed = world.watch(Start::After(told[2].1.clone().into())).await;
    assert_eq!(resumed.next().await.expect("the watcher continues").0, None);
}

#[tokio::test]
async fn the_watchers_of_a_server_are_bounded_and_end_with_it() {
    let world = World::new();
    let mut watchers = Vec::new();
    loop {
        match world.try_watch(Start::Now).await {
            Ok(watcher) => watchers.push(watcher),
            Err(error) => break assert_eq!(error, Error::TooManyWatchers),
        }
    }
    assert_eq!(watchers.len(), WATCHERS_MAX);
    watchers.pop();
    watchers.push(world.watch(Start::Now).await);
    world.append(0, 1);
    world.feeds.engine.hub().close();
    for watcher in &mut watchers {
        while watcher.next().await != Err(Error::Ending) {}
    }
    drop(watchers);
    assert_eq!(world.try_watch(Start::Now).await.err(), Some(Error::Ending));
    world.idle().await;
}

#[tokio::test]
async fn a_watcher_that_cannot_start_in_time_is_refused_and_counted() {
    let world = World::new();
    let readers = world.feeds.shared.readers.acquire_many(READERS_MAX as u32).await;
    let before = ReachedLimit::Overload.times();
    let deadline = monotonic() + Duration::from_millis(5);
    let watched = world.feeds.watch(world.topic.clone(), Start::Oldest, deadline).await;
    assert_eq!(watched.err(), Some(Error::Overloaded));
    assert!(ReachedLimit::Overload.times() > before);
    drop(readers);
    world.watch(Start::Oldest).await;
}
