//! The binary in an empty root file system, as in the image: a user that is not root, a read-only
//! root, and one writable folder.

use std::{fs, process::Command, time::Duration};

use crate::{
    deploy::{missing, output, succeed, tool},
    support::{
        process::{OwnRedis, Server, TempFolder, tollgate},
        world::{admit, patient},
    },
};

/// Libraries of Debian 12's base system, and of the image `distroless/cc-debian12`.
const LIBRARIES: [&str; 4] = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux"];

/// Mounts `$0` read-only with a writable `$0/data`, and replaces itself by `$1…` in there.
/// The inner namespace has one user, and that is not root.
const ENTER: &str = r#"
set -e
mount --bind "$0" "$0"
mount --bind "$0/data" "$0/data"
mount -o remount,bind,ro "$0"
exec unshare --user --map-user=65532 --map-group=65532 --root="$0" --wd=/ -- "$@"
"#;

/// A root file system with the binary, its libraries and an empty folder `data`.
struct Root(TempFolder);

impl Root {
    /// `None` where this machine has no tools or no rights for it.
    fn new() -> Option<Root> {
        let (unshare, ldd) = (tool("unshare")?, tool("ldd")?);
        let probe = ["--user", "--map-root-user", "--mount", "true"];
        if !output(Command::new(unshare).args(probe)).0 {
            missing("the right to make a user namespace");
            return None;
        }
        let root = TempFolder::new();
        fs::create_dir_all(root.path().join("data")).unwrap();
        let binary = env!("CARGO_BIN_EXE_tollgate");
        fs::copy(binary, root.path().join("tollgate")).unwrap();
        // "libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x0…)", "/lib64/ld-linux-x86-64.so.2 (…)"
        let needed = succeed(Command::new(ldd).arg(binary));
        for library in needed.split_whitespace().filter(|word| word.starts_with('/')) {
            assert!(LIBRARIES.iter().any(|known| library.contains(known)), "{library}");
            let copy = root.path().join(&library[1..]);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(library, copy).unwrap();
        }
        Some(Root(root))
    }

    /// Returns the command `tollgate` in the root.
    fn tollgate(&self, arguments: &[&str]) -> Command {
        // Without environment variables.
        let mut command = tollgate(&[]);
        let variables: Vec<_> = command.get_envs().map(|(name, _)| name.to_owned()).collect();
        command = Command::new("unshare");
        variables.iter().for_each(|name| _ = command.env_remove(name));
        command.args(["--user", "--map-root-user", "--mount", "--"]);
        command.args(["sh", "-c", ENTER, self.0.text(), "/tollgate"]).args(arguments);
        command
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_read_only_root_is_enough() {
    let Some(root) = Root::new() else { return };
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "/data/state"];
    for granted in 1..=2 {
        let mut server = Server::spawn(root.tollgate(&serve)).await;
        let mut client = server.client().await;
        let request = patient(admit("p", "d", &format!("t{granted}")));
        let response = client.admit_task(request).await.unwrap().into_inner();
        assert_eq!(response.usage.unwrap().in_use, granted, "the state survives a restart");

        server.process.signal("-TERM");
        assert_eq!(server.process.end(Duration::from_secs(30)).await, Some(0));
    }
    let written = fs::read_dir(root.0.path().join("data/state")).unwrap().count();
    assert!(written > 0);
}

#[test]
fn only_the_data_directory_is_writable() {
    let Some(root) = Root::new() else { return };
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "/elsewhere"];
    let refused = root.tollgate(&serve).output().unwrap();
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(74), "{errors}");
    assert!(errors.contains("Read-only file system"), "{errors}");
}

/// Names are resolved by the C library, which needs no file that a container lacks.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_root_resolves_the_name_of_a_redis() {
    let Some(root) = Root::new() else { return };
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    fs::create_dir_all(root.0.path().join("etc")).unwrap();
    fs::write(root.0.path().join("etc/hosts"), "127.0.0.1 store.example\n").unwrap();

    let engine = format!("redis://store.example:{}", redis.port);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--engine", &engine];
    let server = Server::spawn(root.tollgate(&serve)).await;
    let mut client = server.client().await;
    // The first calls may come before Redis has answered.
    let admitted = async {
        loop {
            match client.admit_task(patient(admit("p", "d", "t"))).await {
                Ok(response) => return response.into_inner(),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let response = tokio::time::timeout(Duration::from_secs(30), admitted).await;
    assert_eq!(response.expect("Redis is found").usage.unwrap().in_use, 1);
}
