//! Who may see and do what: sessions, tokens, rights, and requests that other sites cause.

use super::{ALL, ConsoleServer, READ, caller};
use crate::support::{access::Token, world::admit};

const POLICY: &str =
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
const PAUSE: &str = "action=pause";

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_the_headers_that_keep_other_sites_out() {
    let server = ConsoleServer::start("").await;
    let page = server.get("/", "").await;
    let (_, script) = page.body.split_once("<script src=\"").unwrap();
    let script = script.split('"').next().unwrap();
    let (_, style) = page.body.split_once("<link rel=\"stylesheet\" href=\"").unwrap();
    let style = style.split('"').next().unwrap();
    for (path, status) in
        [("/", 200), ("/pools", 200), ("/pool?name=p", 200), (script, 200), (style, 200)]
            .into_iter()
            .chain([("/assets/icon.svg", 200), ("/nothing", 404), ("/metrics", 200)])
    {
        let reply = server.get(path, "").await;
        assert_eq!(reply.status, status, "{path}");
        assert_eq!(reply.header("content-security-policy"), POLICY, "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(reply.header("referrer-policy"), "same-origin", "{path}");
        let is_asset = path.starts_with("/assets/");
        assert_eq!(reply.header("cache-control").contains("no-store"), !is_asset, "{path}");
        if !is_asset {
            // The policy would refuse these.
            for inline in ["<script>", " style=", " onclick=", "javascript:"] {
                assert!(!reply.body.contains(inline), "{path}: {inline}");
            }
            assert!(!reply.body.contains("://"), "{path} names another site");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_with_markup_are_text() {
    let server = ConsoleServer::start("").await;
    let (pool, device, task) =
        ("<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "'\"&</td>");
    let mut client = server.client().await;
    client.admit_task(admit(pool, device, task)).await.unwrap();
    let path = "/pool?name=%3Cscript%3Ealert%281%29%3C%2Fscript%3E";
    let overview = server.get("/", "").await.body;
    assert!(overview.contains(&format!("href=\"{path}\"")), "{overview}");
    let details = server.get(path, "").await.body;
    assert!(details.contains("&#60;script&#62;alert(1)&#60;/script&#62;"), "{details}");
    assert!(details.contains("alert(1)&#62;"), "the device is shown: {details}");
    let list = server.get("/pools?prefix=%3Cscript%3E", "").await.body;
    for page in [overview, details, list] {
        for raw in ["<script>alert", "<img", "</td>\"", "'\"&<"] {
            assert!(!page.contains(raw), "{raw}: {page}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_console_answers_only_under_a_name_of_this_machine() {
    let server = ConsoleServer::start("").await;
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1:50052", 200),
        ("[::1]:1", 200),
        ("rebound.example", 403),
        ("localhost.rebound.example:50052", 403),
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(server.send(&request).await.status, status, "{host}");
    }
    assert_eq!(server.send("GET / HTTP/1.1\r\n\r\n").await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_begins_with_a_token_and_ends_at_sign_out() {
    let (token, other) = (Token::new(), Token::new());
    let server = ConsoleServer::start(&caller("ops", &token, ALL, "")).await;
    let reply = server.get("/pool?name=ar%3A1", "").await;
    let asked = "/login?next=%2Fpool%3Fname%3Dar%253A1";
    assert_eq!((reply.status, reply.header("location")), (303, asked), "{reply:?}");
    let form = server.get(asked, "").await;
    assert!(form.body.contains("value=\"/pool?name=ar%3A1\""), "{}", form.body);

    let wrong = server.post("/login", "", &format!("token={}", other.text)).await;
    assert_eq!((wrong.status, wrong.header("set-cookie")), (401, ""), "{wrong:?}");
    assert!(wrong.body.contains("no caller of this server has this token"), "{}", wrong.body);
    assert!(!wrong.body.contains(&other.text));
    for broken in ["token=", "token=a%0Ab", "nothing=1", ""] {
        assert_eq!(server.post("/login", "", broken).await.status, 401, "{broken}");
    }

    let next = "&next=%2Fpools";
    let right = server.post("/login", "", &format!("token={}{next}", token.text)).await;
    assert_eq!((right.status, right.header("location")), (303, "/pools"));
    let set = right.header("set-cookie");
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=28800"] {
        assert!(set.contains(attribute), "{set}");
    }
    assert!(!set.contains(&token.text));
    let cookie = right.cookie();
    let page = server.get("/", &cookie).await;
    assert!(page.status == 200 && page.body.contains("Sign out"), "{page:?}");
    for away in ["%2F%2Fevil.example", "http%3A%2F%2Fevil.example", "%2F%5Cevil.example"] {
        let reply = server.post("/login", "", &format!("token={}&next={away}", token.text)).await;
        assert_eq!(reply.header("location"), "/", "{away}");
    }

    let out = server.post("/logout", &cookie, "").await;
    assert_eq!((out.status, out.header("location")), (303, "/login"));
    assert_eq!(server.get("/", &cookie).await.status, 303);
    assert_eq!(server.get("/live/", &cookie).await.status, 401);
    let forged = "Cookie: tollgate_session=0123456789abcdef0123456789abcdef\r\n";
    assert_eq!(server.get("/", forged).await.status, 303);
    // No log line has a token.
    assert!(!server.inner.files.log().contains(&token.text));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_are_tried_slowly() {
    let token = Token::new();
    let server = ConsoleServer::start(&caller("ops", &token, ALL, "")).await;
    let tries = (0..12).map(|_| server.post("/login", "", "token=wrong"));
    let replies = futures_util::future::join_all(tries).await;
    let count = |status: u16| replies.iter().filter(|reply| reply.status == status).count();
    assert_eq!(count(401) + count(429), 12, "{replies:?}");
    assert!(count(401) >= 1 && count(429) >= 1, "{} {}", count(401), count(429));
    server.sign_in(&token).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_ends_its_session() {
    let (gone, stays) = (Token::new(), Token::new());
    let both = caller("gone", &gone, ALL, "") + &caller("stays", &stays, ALL, "");
    let server = ConsoleServer::start(&both).await;
    let (first, second) = (server.sign_in(&gone).await, server.sign_in(&stays).await);
    assert_eq!(server.get("/", &first).await.status, 200);
    let config = format!("log_format = \"json\"\n{}", caller("stays", &stays, ALL, ""));
    server.inner.files.write("tollgate.toml", &config);
    server.inner.reload().await;
    assert_eq!(server.get("/", &first).await.status, 303);
    let refused = server.post("/pool?name=p", &first, PAUSE).await;
    assert!(refused.header("location").starts_with("/login"), "{refused:?}");
    let page = server.get("/pool?name=p", &second).await.body;
    assert!(page.contains("value=\"pause\""), "the pool is not paused: {page}");
    assert_eq!(server.get("/live/", &first).await.status, 401);
    assert_eq!(server.get("/", &second).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_no_buttons_and_its_actions_are_refused() {
    let (reader, operator) = (Token::new(), Token::new());
    let config = caller("reader", &reader, READ, "") + &caller("operator", &operator, ALL, "");
    let server = ConsoleServer::start(&config).await;
    let mut request = tonic::Request::new(admit("p", "camera", "task"));
    request.metadata_mut().insert("authorization", operator.bearer().parse().unwrap());
    server.client().await.admit_task(request).await.unwrap();

    let (reads, acts) = (server.sign_in(&reader).await, server.sign_in(&operator).await);
    let page = server.get("/pool?name=p", &reads).await;
    assert!(page.status == 200 && page.body.contains("camera"), "{page:?}");
    assert!(!page.body.contains("name=\"action\""), "{}", page.body);
    let full = server.get("/pool?name=p", &acts).await.body;
    assert!(full.contains("value=\"pause\"") && full.contains("value=\"evict\""), "{full}");

    for form in [PAUSE, "action=capacity&capacity=1", "action=evict&device=camera&task=task"] {
        let refused = server.post("/pool?name=p", &reads, form).await;
        assert_eq!(refused.status, 403, "{form}: {refused:?}");
        assert!(refused.body.contains("lacks the permission `manage`"), "{refused:?}");
    }
    server.inner.files.logged("PERMISSION_MISSING", 3).await;
    let refusals: Vec<_> = server.audited();
    assert_eq!(refusals[0][..2], ["reader", "ConfigurePool"], "{refusals:?}");
    assert!(server.get("/pool?name=p", &acts).await.body.contains("camera"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_sees_its_namespace_and_its_names_only() {
    let (acme, named, any) = (Token::new(), Token::new(), Token::new());
    let config = caller("acme", &acme, ALL, "namespace = \"acme\"")
        + &caller("named", &named, ALL, "names = [\"ar:*\"]")
        + &caller("any", &any, ALL, "namespace = \"*\"");
    let server = ConsoleServer::start(&config).await;
    let mut client = server.client().await;
    for (token, pool) in [(&acme, "of-acme"), (&named, "ar:1"), (&any, "of-default")] {
        let mut request = tonic::Request::new(admit(pool, "camera", "task"));
        request.metadata_mut().insert("authorization", token.bearer().parse().unwrap());
        client.admit_task(request).await.unwrap();
    }
    let seen = async |cookie: &str| {
        let body = server.get("/pools", cookie).await.body;
        ["of-acme", "ar:1", "of-default"].map(|pool| body.contains(&format!(">{pool}</a>")))
    };
    assert_eq!(seen(&server.sign_in(&acme).await).await, [true, false, false]);
    let of_named = server.sign_in(&named).await;
    assert_eq!(seen(&of_named).await, [false, true, false]);
    assert_eq!(server.get("/pool?name=of-default", &of_named).await.status, 403);
    // Counters of the server cover all namespaces.
    assert!(!server.get("/", &of_named).await.body.contains("Calls, refusals and errors"));
    let of_any = server.sign_in(&any).await;
    assert!(server.get("/", &of_any).await.body.contains("Calls, refusals and errors"));
    assert_eq!(seen(&of_any).await, [false, true, true]);
    assert_eq!(server.post("/namespace", &of_any, "namespace=acme").await.status, 303);
    assert_eq!(seen(&of_any).await, [true, false, false]);
    let of_acme = server.sign_in(&acme).await;
    assert_eq!(server.post("/namespace", &of_acme, "namespace=beta").await.status, 403);
    assert_eq!(seen(&of_acme).await, [true, false, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_cookies_and_other_sites_do_not_disturb_a_session() {
    let token = Token::new();
    let server = ConsoleServer::start(&caller("admin", &token, ALL, "")).await;
    let cookie = server.sign_in(&token).await;
    let value = cookie.trim_end().strip_prefix("Cookie: ").unwrap();
    for cookies in [format!("a=é; {value}"), format!("tollgate_session=x; {value}")] {
        assert_eq!(server.get("/pools", &format!("Cookie: {cookies}\r\n")).await.status, 200);
    }
    for (next, location) in [
        ("/pools", "/pools"),
        ("//evil.example", "/"),
        ("/%09/evil.example", "/"),
        ("/%5C/evil.example", "/"),
        ("https://evil.example", "/"),
    ] {
        let form = format!("token={}&next={next}", token.text);
        assert_eq!(server.post("/login", "", &form).await.header("location"), location, "{next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_of_other_sites_and_long_forms_are_refused() {
    let server = ConsoleServer::start("").await;
    let own = format!("Origin: http://localhost:{}\r\n", server.port);
    for (headers, status) in [
        ("Origin: http://evil.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("", 403),
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Sec-Fetch-Site: same-site\r\n", 403),
        ("Origin: http://evil.example\r\nSec-Fetch-Site: same-origin\r\n", 403),
        ("Sec-Fetch-Site: same-origin\r\n", 303),
        (&*own, 303),
    ] {
        for path in ["/pool?name=p", "/login", "/logout"] {
            let reply = server.post_from(headers, path, PAUSE).await;
            assert_eq!(reply.status, status, "{headers} {path}: {reply:?}");
        }
    }
    let long = format!("action=pause&more={}", "x".repeat(33 * 1024));
    assert_eq!(server.post("/pool?name=long", "", &long).await.status, 413);
    let other = server.send("PUT / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!((other.status, other.header("allow")), (405, "GET, HEAD, POST"));
    let page = server.get("/pool?name=long", "").await.body;
    assert!(page.contains("value=\"pause\""), "the pool is not paused: {page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_can_be_disabled() {
    let server = ConsoleServer::start("[console]\nenabled = false\n").await;
    for path in ["/", "/pools", "/login", "/live/", "/assets/icon.svg"] {
        assert_eq!(server.get(path, "").await.status, 404, "{path}");
    }
    assert_eq!(server.get("/metrics", "").await.status, 200);
    assert_eq!(server.post("/pool?name=p", "", PAUSE).await.status, 405);
}
