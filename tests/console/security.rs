//! Sessions, rights, other sites and hostile names, as a browser meets them.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{
    browser::Browser,
    console::{Console, Engine},
    support::access::Token,
};

/// Posts an action on the pool from a page of the console, with all fields. Returns the status.
async fn post(browser: &Browser, action: &str) -> Value {
    let script = "const [action, done] = arguments;
        const fields = { action, capacity: 5, device: 'camera', task: 'scan', reason: '' };
        fetch(location.href, { method: 'POST', body: new URLSearchParams(fields) })
            .then(answer => done(answer.status))";
    browser.run_async(script, &[action.into()]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_caller_signs_in() {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(Engine::Embedded).await;
    browser.open(&console.url("/pool?name=a%26b")).await;
    assert!(browser.client.current_url().await.unwrap().path().starts_with("/login"));
    browser.fill("#token", &Token::new().text).await;
    browser.click("button").await;
    browser.shows("Not signed in.").await;
    assert_eq!(browser.count("nav").await, 0);
    browser.fill("#token", &console.operator.text).await;
    browser.click("button").await;
    // To the page that was asked for.
    browser.find("nav[aria-label=Pages]").await;
    assert_eq!(browser.find("h1").await.text().await.unwrap(), "a&b");

    // No script reads the session, and no page or log contains the token.
    let cookie = browser.client.get_named_cookie("tollgate_session").await.unwrap();
    assert_eq!(cookie.http_only(), Some(true));
    assert!(cookie.same_site().is_some_and(|site| site.is_strict()));
    assert!(!cookie.value().contains(&console.operator.text));
    assert_eq!(browser.run("return document.cookie", &[]).await, "");
    assert!(!browser.client.source().await.unwrap().contains(&console.operator.text));
    assert!(!console.log().contains(&console.operator.text));

    // An expired session, and one that never existed.
    browser.client.delete_cookie("tollgate_session").await.unwrap();
    post(&browser, "pause").await;
    assert!(!console.pool("a&b").await.config.unwrap().paused);
    browser.open(&console.url("/pools")).await;
    browser.find("#token").await;
    let session = async |value: &str| {
        let cookie = json!({ "url": console.url("/"), "name": "tollgate_session", "value": value });
        browser.devtools("Network.setCookie", cookie).await;
    };
    session(&"0".repeat(64)).await;
    browser.open(&console.url("/pools")).await;
    browser.fill("#token", &console.operator.text).await;
    browser.click("button").await;
    browser.find("nav[aria-label=Pages]").await;

    // Signed out: the old cookie is worthless, even where it is still sent.
    let cookie = browser.client.get_named_cookie("tollgate_session").await.unwrap();
    browser.click("form[action='/logout'] button").await;
    browser.find("#token").await;
    session(cookie.value()).await;
    browser.open(&console.url("/pools")).await;
    browser.find("#token").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_removed_caller_ends() {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(Engine::Embedded).await;
    console.sign_in(&browser, &console.reader, "/pools").await;
    console.remove_reader();
    // Without a reload by the user.
    browser.find("#token").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_has_no_actions() {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(Engine::Embedded).await;
    console.admit("p", "camera", "scan").await;
    console.sign_in(&browser, &console.reader, "/pool?name=p").await;
    browser.until("the lease", async || browser.rows("leases").await.len() == 1).await;
    assert_eq!(browser.count("main button, main summary").await, 0);
    let before = console.pool("p").await;
    for action in ["pause", "evict", "capacity", "reset", "cancel"] {
        assert_eq!(post(&browser, action).await, 403, "{action}");
    }
    assert_eq!(console.pool("p").await, before);
    console.audited("reader", "ConfigurePool", "", "PERMISSION_MISSING").await;
}

/// Serves a page with a form that pauses the pool `p` of a console, and one that signs out. Returns
/// the port.
async fn other_site(console: &Console) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let form = format!(
        "<!doctype html><form method=post action='{}'><button name=action value=pause>Win</button>\
         </form>",
        console.url("/pool?name=p")
    );
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close";
            let page = format!("{head}\r\ncontent-length: {}\r\n\r\n{form}", form.len());
            let _ = stream.write_all(page.as_bytes()).await;
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_of_other_sites_are_refused() {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(Engine::Embedded).await;
    console.capacity("p", 1).await;
    console.sign_in(&browser, &console.operator, "/pool?name=p").await;
    let port = other_site(&console).await;
    // The same host on another port, which gets the cookie, and another host, which does not.
    for host in ["127.0.0.1", "localhost"] {
        browser.open(&format!("http://{host}:{port}/")).await;
        browser.click("button").await;
        browser.shows("forms from other sites are refused").await;
        let blind = "const [url, done] = arguments;
            fetch(url, { method: 'POST', mode: 'no-cors', credentials: 'include',
                body: new URLSearchParams({ action: 'pause' }) }).then(() => done(''), done)";
        browser.open(&format!("http://{host}:{port}/")).await;
        browser.run_async(blind, &[console.url("/pool?name=p").into()]).await;
        assert!(!console.pool("p").await.config.unwrap().paused, "{host}");
        // Another site can neither read a page nor frame it.
        let read = "const [url, done] = arguments;
            fetch(url, { credentials: 'include' }).then(() => done('read'), () => done('refused'))";
        assert_eq!(browser.run_async(read, &[console.url("/").into()]).await, "refused");
        let frame = "const [url, done] = arguments, frame = document.createElement('iframe');
            frame.onload = () => { try { done(frame.contentDocument ? 'blank' : 'opaque') }
                catch { done('opaque') } };
            frame.src = url; document.body.append(frame)";
        assert_eq!(browser.run_async(frame, &[console.url("/").into()]).await, "opaque");
    }
    browser.open(&console.url("/pool?name=p")).await;
    assert_eq!(post(&browser, "pause").await, 200);
    assert!(console.pool("p").await.config.unwrap().paused);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_with_markup_are_text() {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(Engine::Embedded).await;
    let pool = "<script>window.hit = 1</script>";
    let device = "\"><img src=x onerror='window.hit = 2'>";
    let task = "</td></table><svg onload=window.hit=3>&amp;${1}";
    console.admit(pool, device, task).await;
    console.sign_in(&browser, &console.operator, "/pools").await;
    browser.until("the pool", async || browser.rows("pools").await.len() == 1).await;
    assert_eq!(browser.rows("pools").await[0][0], pool);
    browser.click("#pools a").await;
    browser.until("the lease", async || browser.rows("leases").await.len() == 1).await;
    assert_eq!(browser.find("h1").await.text().await.unwrap(), pool);
    assert_eq!(browser.rows("leases").await[0][..2], [device, task]);
    // A part that the stream replaces is text, too.
    console.admit(pool, "second", task).await;
    browser.until("both leases", async || browser.rows("leases").await.len() == 2).await;
    browser.click("//tr[th='second']//summary").await;
    browser.click("//tr[th='second']//button").await;
    let message = browser.find(".message").await.text().await.unwrap();
    assert!(message.contains(task), "{message}");
    assert_eq!(browser.run("return window.hit === undefined", &[]).await, true);
    browser.is_sound("the pool with markup in its name").await;
}
