//! The embedded engine on a disk: time after a kill, a disk that hangs, access rights of the
//! directory, and settings that survive a restart.

mod hanging;
mod unsynced;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use pb::{AcquireLockOutcome, AdmitDecision, ReserveOutcome};
use tokio::time::sleep;
use tollgate_client::pb;
use tollgate_core::time::Clock;

use crate::{
    durable::restarts::end,
    support::{
        locks::{acquire, leased},
        process::{Server, TempFolder, tollgate},
        rates::{limit, rule},
        sequences::next,
        stocks::{Shop, held, reserve},
        world::{World, admit, capacity, micros, seconds},
    },
};

/// Length of each lease, hold and window.
const LENGTH: Duration = Duration::from_secs(4);
/// Time until the first end when the server is killed; most restarts take less.
const LEFT: Duration = Duration::from_secs(2);
/// Length of a lease that is granted after the restart.
const SHORT: Duration = Duration::from_millis(200);
/// An ended lease, hold or window must be granted again within this time, in µs, on a busy machine
/// too.
const SLACK: u64 = 1_000_000;

/// Returns the system clock, in µs.
fn system() -> u64 {
    Clock::system().now().0
}

/// A slot, a lock, a hold and a rate window in use. Each field contains the earliest and the latest
/// time of the end, in µs; `tokens` are the fencing tokens of the slot and the lock.
struct Taken {
    task: [u64; 2],
    lock: [u64; 2],
    hold: [u64; 2],
    window: [u64; 2],
    tokens: [u64; 2],
}

/// Earliest and latest end of something that lasts `length`, was requested at `asked` and is
/// answered now.
fn ends(asked: u64, length: Duration) -> [u64; 2] {
    [asked, system()].map(|begin| begin + length.as_micros() as u64)
}

async fn task(shop: &Shop, device: &str) -> Result<pb::Lease, AdmitDecision> {
    let request = pb::AdmitTaskRequest {
        lease_duration: Some(seconds(LENGTH.as_secs_f64())),
        ..admit("p", device, "t")
    };
    let answer = shop.world.client.clone().admit_task(request).await.unwrap().into_inner();
    answer.lease.clone().ok_or(answer.decision())
}

async fn lock(shop: &Shop, name: &str, owner: &str, length: Duration) -> Option<pb::LockLease> {
    let request = leased(length.as_secs_f64(), acquire(name, owner));
    let answer = shop.world.locks.clone().acquire_lock(request).await.unwrap().into_inner();
    let is_acquired = answer.outcome() == AcquireLockOutcome::Acquired;
    answer.lease.filter(|_| is_acquired)
}

async fn item(shop: &Shop, order: &str) -> bool {
    let request = held(LENGTH, reserve("tv", order, 1));
    shop.asked(request).await == ReserveOutcome::Reserved
}

async fn passes(shop: &Shop, calls: usize) -> usize {
    let rule = rule([limit(10, LENGTH, pb::Algorithm::SlidingWindow)]);
    shop.world.passes(calls, "key", &rule).await
}

async fn take(shop: &Shop) -> Taken {
    let task = task(shop, "one").await.unwrap();
    let lock = lock(shop, "lock", "one", LENGTH).await.unwrap();
    let asked = system();
    assert!(item(shop, "one").await);
    let hold = ends(asked, LENGTH);
    let asked = system();
    assert_eq!(passes(shop, 12).await, 10);
    let window = ends(asked, LENGTH);
    let tokens = [task.fencing_token, lock.fencing_token];
    let [task, lock] = [task.expire_time, lock.expire_time].map(|expire| [micros(expire); 2]);
    Taken { task, lock, hold, window, tokens }
}

/// Repeats a request for something in use, until it is granted. Panics if it is granted before its
/// earliest end or refused more than [`SLACK`] after its latest end. Returns the number of refusals
/// before the earliest end.
async fn end_on_time(what: &str, ends: [u64; 2], ask: impl AsyncFn() -> bool) -> usize {
    let [earliest, latest] = ends;
    let mut refused = 0;
    loop {
        let asked = system();
        let is_granted = ask().await;
        let answered = system();
        let early = earliest.saturating_sub(answered);
        assert!(!is_granted || early == 0, "{what}: {early} µs early");
        if is_granted {
            return refused;
        }
        let late = asked.saturating_sub(latest);
        assert!(late < SLACK, "{what} still refused {late} µs after its end");
        refused += usize::from(early > 0);
        sleep(Duration::from_millis(20)).await;
    }
}

/// Under `interval`, answers older than one second are synced when the server is killed. Their
/// leases end at `expire_time` by the system clock, neither earlier nor later.
#[tokio::test(flavor = "multi_thread")]
async fn h20_synced_leases_end_on_time_after_a_kill() {
    // On a busy machine a restart may take longer than the time that is left.
    for _ in 0..3 {
        if kill_while_taken().await {
            return;
        }
    }
    panic!("in each round every lease had ended before the restart was complete");
}

/// Acquires something of each kind, kills the server and starts it again. Returns whether something
/// was still in use after the restart.
async fn kill_while_taken() -> bool {
    let folder = TempFolder::new();
    let arguments = ["--data-dir", folder.text(), "--durability", "interval"];
    let server = Server::start(&arguments).await;
    let shop = Shop::from_world(World::at(server.address()).await).await;
    shop.world.configure(capacity("p", 1)).await;
    shop.set("tv", 1).await;
    let taken = take(&shop).await;
    // Calls continue until the kill. Answers of the last second may be lost; older ones are not.
    while system() + (LEFT.as_micros() as u64) < taken.task[0] {
        shop.world.next(next("order")).await;
        sleep(Duration::from_millis(20)).await;
    }
    end(server, "-KILL").await;
    let server = Server::start(&arguments).await;
    let shop = Shop::from_world(World::at(server.address()).await).await;

    // The new server's time follows the system clock: a short lease ends after its length.
    let asked = system();
    let short = lock(&shop, "short", "one", SHORT).await.unwrap();
    assert!(micros(short.grant_time) <= system(), "the server's time is ahead of the system clock");
    let short = ends(asked, SHORT);
    let (refused, ..) = tokio::join!(
        end_on_time("the slot", taken.task, async || {
            let next = task(&shop, "two").await;
            let is_later = next.as_ref().is_ok_and(|next| next.fencing_token > taken.tokens[0]);
            assert!(is_later || next == Err(AdmitDecision::Full), "{next:?}");
            is_later
        }),
        end_on_time("the lock", taken.lock, async || {
            let next = lock(&shop, "lock", "two", LENGTH).await;
            assert!(next.as_ref().is_none_or(|next| next.fencing_token > taken.tokens[1]));
            next.is_some()
        }),
        end_on_time("the hold", taken.hold, async || item(&shop, "two").await),
        end_on_time("the window", taken.window, async || passes(&shop, 1).await > 0),
        end_on_time("the short lease", short, async || {
            lock(&shop, "short", "two", SHORT).await.is_some()
        }),
    );
    refused > 0
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn modes(folder: &TempFolder) -> Vec<(String, u32)> {
    let entries = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.display().to_string(), mode(&path))).collect()
}

/// Returns the command, run by a shell with this umask.
fn under(umask: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"]);
    shell.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

fn serve(folder: &TempFolder) -> Command {
    let mut serve = tollgate(&["serve", "--listen", "127.0.0.1:0", "--durability", "always"]);
    serve.args(["--data-dir", folder.text()]);
    serve
}

#[tokio::test(flavor = "multi_thread")]
async fn h11_only_the_owner_may_read_a_data_directory_and_its_exports() {
    for umask in ["000", "022", "0277"] {
        let folder = TempFolder::new();
        let server = Server::spawn(under(umask, &serve(&folder))).await;
        assert_eq!(mode(folder.path()), 0o700, "umask {umask}");
        let files = modes(&folder);
        assert!(files.len() >= 2, "{files:?}");
        assert!(files.iter().all(|(_, mode)| *mode == 0o600), "umask {umask}: {files:?}");
        end(server, "-TERM").await;

        let output = folder.path().with_extension("jsonl");
        // A partial export that already exists with wider permissions does not pass them on to the
        // export.
        let part = folder.path().with_extension("jsonl.part");
        fs::write(&part, "cut").unwrap();
        fs::set_permissions(&part, Permissions::from_mode(0o644)).unwrap();
        let export = ["export", "--data-dir", folder.text(), "--output"];
        let mut export = tollgate(&export);
        export.arg(&output);
        let status = under(umask, &export).status().unwrap();
        assert!(status.success(), "umask {umask}");
        assert_eq!(mode(&output), 0o600, "umask {umask}");
        fs::remove_file(output).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h11_wider_existing_rights_cause_a_warning_and_stay() {
    let folder = TempFolder::new();
    end(Server::spawn(serve(&folder)).await, "-TERM").await;
    let log = folder.path().with_extension("log");
    let started = async || {
        let mut command = serve(&folder);
        command.stderr(fs::File::create(&log).unwrap());
        end(Server::spawn(command).await, "-TERM").await;
        fs::read_to_string(&log).unwrap()
    };
    let said = started().await;
    assert!(!said.contains("chmod"), "{said}");
    let file = folder.path().join("tollgate.redb");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let said = started().await;
    assert!(said.contains("WARN") && said.contains("mode 0755"), "{said}");
    assert!(said.contains("chmod 700") && said.contains("chmod 600"), "{said}");
    assert_eq!((mode(folder.path()), mode(&file)), (0o755, 0o644), "existing permissions stay");
    fs::remove_file(log).unwrap();
}

/// Settings made by ConfigurePool on a data directory survive a restart and stay in force.
#[tokio::test(flavor = "multi_thread")]
async fn h25_settings_of_configure_pool_survive_a_restart() {
    for signal in ["-TERM", "-KILL"] {
        let folder = TempFolder::new();
        let arguments = ["--data-dir", folder.text(), "--durability", "always"];
        let server = Server::start(&arguments).await;
        let world = World::at(server.address()).await;
        let settings =
            pb::ConfigurePoolRequest { lease_duration: Some(seconds(7.0)), ..capacity("p", 1) };
        let before = world.configure(settings).await;
        end(server, signal).await;

        let server = Server::start(&arguments).await;
        let world = World::at(server.address()).await;
        assert_eq!(world.pool("p").await, before, "{signal}");
        assert_eq!(world.admit("p", "d", "one").await.decision(), AdmitDecision::Admitted);
        assert_eq!(world.admit("p", "d", "two").await.decision(), AdmitDecision::Full);
        let reset =
            pb::ConfigurePoolRequest { pool: "p".into(), reset: Some(true), ..Default::default() };
        assert_eq!(world.configure(reset).await.config.unwrap().capacity, 60, "{signal}");
    }
}
