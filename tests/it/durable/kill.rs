//! Scenarios S8 and J1: a server with a data directory is killed under load, many times. After each
//! kill the state of the server is compared with the answers that its callers recorded. Under
//! `always` and `interval` no acknowledged change is lost, and none is made twice.
//!
//! Under `none`, all lost changes were acknowledged within one second. If the disk stalled, that
//! second may be long before the kill, since calls waited for the disk from then on.
//!
//! `TOLLGATE_TEST_KILLS` sets the number of kills. The default is 20 in `tests/run.sh all`, else 6.

mod book;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use book::{Book, Item, Kind, Told};
use rand::Rng;
use tollgate_client::pb;
use tollgate_core::time::monotonic;

use crate::{
    durable::restarts::end,
    support::{
        process::{Server, TempFolder},
        sequences::{next, patient},
        stocks::Shop,
        tier,
        world::{World, capacity, seconds},
    },
};

const CALLERS: usize = 16;
const STOCK: i64 = 10_000_000;
/// Length of leases and holds, in seconds.
const HOURS: f64 = 6.0 * 3600.0;

fn kills() -> usize {
    match std::env::var("TOLLGATE_TEST_KILLS") {
        Ok(kills) => kills.parse().expect("TOLLGATE_TEST_KILLS is a number"),
        Err(_) if tier::is_full() => 20,
        Err(_) => 6,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_always_keeps_every_acknowledged_change_over_kills() {
    kill_again_and_again("always", Duration::ZERO, 20..400).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j1_interval_keeps_every_acknowledged_change_over_kills() {
    kill_again_and_again("interval", Duration::ZERO, 20..1400).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j1_none_loses_at_most_a_second_over_kills() {
    kill_again_and_again("none", Duration::from_secs(1), 1100..1800).await;
}

async fn kill_again_and_again(
    durability: &str,
    lost_at_most: Duration,
    lives: std::ops::Range<u64>,
) {
    let folder = TempFolder::new();
    let arguments = ["--data-dir", folder.text(), "--durability", durability];
    let mut server = Server::start(&arguments).await;
    let shop = Shop::from_world(World::at(server.address()).await).await;
    // Leases and holds outlive the test. A renewal uses the lease duration of the pool.
    let lease_duration = Some(seconds(HOURS));
    let pool = pb::ConfigurePoolRequest { lease_duration, ..capacity("p", 1_000_000) };
    shop.world.configure(pool).await;
    shop.set("tv", STOCK).await;
    let (mut book, mut found) = (Book::default(), 0);
    for kill in 0..kills() {
        // An orderly restart: the kill must not lose the setup or the changes of the last check.
        end(server, "-TERM").await;
        server = Server::start(&arguments).await;
        let life = Duration::from_millis(rand::rng().random_range(lives.clone()));
        live(&server, &mut book, kill, life).await;
        drop(server);
        server = Server::start(&arguments).await;
        let shop = Shop::from_world(World::at(server.address()).await).await;
        let context = format!("{durability}, kill {kill}");
        found += book.check(&shop, &context).await;
        book.check_lost(lost_at_most, &context);
    }
    println!("{durability}: {} kills, {found} acknowledged changes found", kills());
    assert!(found > kills() * 20, "only {found}");
}

/// Runs callers until the server is killed after `life`. Adds their record to the book.
async fn live(server: &Server, book: &mut Book, kill: usize, life: Duration) {
    let shop = Arc::new(Shop::from_world(World::at(server.address()).await).await);
    let (shared, over) = (Arc::new(Mutex::new(std::mem::take(book))), Arc::default());
    let callers = (0..CALLERS).map(|caller| {
        let (shop, book) = (shop.clone(), shared.clone());
        let over: Arc<AtomicBool> = Arc::clone(&over);
        tokio::spawn(async move {
            let mut number = 0;
            while !over.load(Ordering::SeqCst) {
                number += 1;
                match caller % 4 {
                    0 => take_serial(&shop, &book).await,
                    kind => {
                        let kind = [Kind::Task, Kind::Lock, Kind::Order][kind - 1];
                        let name = format!("{kill}-{caller}-{number}");
                        play(&shop, &book, Item::new(kind, name)).await;
                    }
                }
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    tokio::time::sleep(life).await;
    server.process.signal("-KILL");
    over.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.await.unwrap();
    }
    *book = std::mem::take(&mut shared.lock().unwrap());
}

async fn take_serial(shop: &Shop, book: &Mutex<Book>) {
    let asked = monotonic();
    let answer = shop.world.sequences.clone().next_sequence(patient(next("order"))).await;
    if let Ok(answer) = answer {
        book.lock().unwrap().serial(answer.into_inner().last, Told::since(asked));
    }
}

/// Runs one or two steps with a new item. Records attempts and acknowledgements.
async fn play(shop: &Shop, book: &Mutex<Book>, mut item: Item) {
    let steps = rand::rng().random_range(1..=2);
    for _ in 0..steps {
        item.tried += 1;
        let asked = monotonic();
        if !item.step(shop).await {
            break;
        }
        item.acknowledged.push(Told::since(asked));
    }
    book.lock().unwrap().items.push(item);
}
