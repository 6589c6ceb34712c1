//! The checks of a page find the faults of a small page.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::browser::{Browser, Theme};

/// A page without faults.
const SOUND: &str = "<!doctype html><html lang=en><title>Sound</title><main><h1>Sound</h1>\
    <form action=/acted><label>Name <input name=name></label><button>Act</button></form></main>";

/// A page with each fault that the checks know: an input without a label, a script and an image
/// that the policy forbids, and a wide line.
const FAULTY: &str = "<!doctype html><html lang=en><title>Faulty</title><main><h1>Faulty</h1>\
    <input><script>document.title = 'it ran'</script><img alt=none src=http://127.0.0.2:1/x.png>\
    <p style=width:5000px>Wide</main>";

/// Serves both pages. Returns the address.
async fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = vec![0; 8192];
                let read = stream.read(&mut request).await.unwrap_or(0);
                let request = String::from_utf8_lossy(&request[..read]).into_owned();
                let (policy, page) = match request.split(' ').nth(1) {
                    Some("/faulty") => {
                        ("script-src 'self'; style-src 'unsafe-inline' 'self'", FAULTY)
                    }
                    Some(path) if path.starts_with("/acted") => ("default-src 'self'", "acted"),
                    _ => ("default-src 'self'", SOUND),
                };
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\
                     content-security-policy: {policy}\r\ncontent-length: {}\r\n\r\n{page}",
                    page.len()
                );
                let _ = stream.write_all(head.as_bytes()).await;
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_without_faults_passes_and_each_fault_is_found() {
    let Some(browser) = Browser::start().await else { return };
    let address = serve().await;
    for theme in Theme::ALL {
        for width in [320, 1920] {
            browser.look(width, theme).await;
            browser.open(&address).await;
            let seen = browser.run("return innerWidth", &[]).await;
            assert_eq!(seen, width);
            let dark =
                browser.run("return matchMedia('(prefers-color-scheme: dark)').matches", &[]);
            assert_eq!(dark.await, theme == Theme::Dark);
            browser.log().await; // the icon that this server does not have
            browser.is_sound("the sound page").await;
        }
    }

    // Tab reaches the input and the button; Enter acts.
    browser.press('\u{e004}').await;
    browser.press('x').await;
    browser.press('\u{e004}').await;
    browser.press('\u{e007}').await;
    browser.shows("acted").await;
    assert!(browser.client.current_url().await.unwrap().as_str().ends_with("/acted?name=x"));

    browser.open(&format!("{address}/faulty")).await;
    assert_eq!(browser.client.title().await.unwrap(), "Faulty");
    let found = browser.accessibility().await;
    assert!(found.iter().any(|one| one.starts_with("label:")), "{found:?}");
    let violations = browser.violations().await;
    assert_eq!(violations, ["script-src-elem: inline"]);
    assert_eq!(browser.foreign().await, ["http://127.0.0.2:1/x.png"]);
    assert!(browser.overflow().await > 1000);
    assert!(!browser.log().await.is_empty());
}
