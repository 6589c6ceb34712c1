//! Pages of policies, keys and bans, and the events of a policy.

use std::fmt::Write;

use tollgate_client::pb::{GetKeyRequest, GetKeyResponse};

use super::ConsoleServer;
use crate::support::{process::OwnRedis, rates::under, world::Rates};

/// Two calls a minute, then refusals; the sixth call is a ban.
const POLICY: &str = "
[[policy]]
name = \"crawlers\"
limit = [{ name = \"calls\", max = 2, window = \"1m\", algorithm = \"FIXED_WINDOW\" }]
tier = [{ above = 5, action = \"BAN\", ban_durations = [\"1h\"] }]
[[policy.override]]
match = \"friend:*\"
limit = [{ name = \"calls\", max = 1000, window = \"1h\", algorithm = \"TOKEN_BUCKET\" }]
tier = []
";
const KEY: &str = "/key?policy=crawlers&name=203.0.113.7";

async fn rates(server: &ConsoleServer) -> Rates {
    Rates::connect(server.inner.server.address()).await.unwrap()
}

async fn state(rates: &mut Rates) -> GetKeyResponse {
    let request = GetKeyRequest { key: "203.0.113.7".into(), policy: "crawlers".into() };
    rates.get_key(request).await.unwrap().into_inner()
}

async fn pages_show_policies_keys_and_bans(server: ConsoleServer) {
    let mut rates = rates(&server).await;
    for _ in 0..4 {
        rates.check_rate(under("203.0.113.7", "crawlers")).await.unwrap();
    }
    let list = server.get("/rates", "").await.body;
    assert!(list.contains("calls: 2 per 1 min, fixed window"), "{list}");
    assert!(list.contains("above 5: ban 1 h"), "{list}");
    assert!(list.contains("<td class=\"number\">2</td><td class=\"number\">0.0</td>"), "{list}");
    let policy = server.get("/policy?name=crawlers", "").await.body;
    assert!(policy.contains("<code>friend:*</code>") && policy.contains("all others"), "{policy}");
    assert!(policy.contains(">203.0.113.7</a></th><td class=\"number\">2</td>"), "{policy}");
    assert!(policy.contains("No key is banned"), "{policy}");
    let key = server.get(KEY, "").await.body;
    let used = &state(&mut rates).await.limits[0];
    // Refused calls count up to the tier above them.
    assert_eq!((used.count, used.remaining), (4, 0));
    assert!(key.contains("aria-label=\"100 % of limit calls used\""), "{key}");
    assert!(key.contains(
        "<td class=\"number\">4</td><td class=\"number\">2</td><td class=\"number\">0</td>"
    ));

    let ban = "action=ban&key=203.0.113.7&minutes=5&reason=a%26b";
    assert!(server.act(KEY, ban).await.contains("Banned 203.0.113.7 for 5 min"));
    let banned = state(&mut rates).await;
    let ban = banned.ban.unwrap();
    assert_eq!((&*ban.reason, &*ban.actor, banned.strikes), ("a&b", "console", 1));
    let policy = server.get("/policy?name=crawlers", "").await.body;
    assert!(policy.contains("<td>a&#38;b</td>") && policy.contains("Lift the ban"), "{policy}");
    let lift = "action=lift&key=203.0.113.7";
    assert!(server.act("/policy?name=crawlers", lift).await.contains("Lifted"));
    assert!(state(&mut rates).await.ban.is_none());
    assert!(server.act("/policy?name=crawlers", lift).await.contains("is not banned"));
    rates.check_rate(under("203.0.113.7", "crawlers")).await.unwrap();
    assert!(server.act(KEY, "action=reset").await.contains("Reset the usage"));
    assert_eq!(state(&mut rates).await.limits[0].count, 0);

    let events = server.get("/events?of=policy&name=crawlers", "").await.body;
    for kind in ["banned", "unbanned"] {
        assert!(events.contains(&format!("<th scope=\"row\">{kind}</th>")), "{kind}: {events}");
    }
    let verbs: Vec<_> = server.audited().into_iter().map(|[_, verb, _, _]| verb).collect();
    assert_eq!(verbs, ["Ban", "Unban", "Unban", "ResetRate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_rates_on_the_embedded_engine() {
    pages_show_policies_keys_and_bans(ConsoleServer::start(POLICY).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_rates_on_redis() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    pages_show_policies_keys_and_bans(ConsoleServer::on(POLICY, Some(redis)).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bans_are_listed_in_pages() {
    let server = ConsoleServer::start(POLICY).await;
    let mut form = String::new();
    for number in 0..60 {
        form.clear();
        write!(form, "action=ban&key=k{number:02}&minutes=5").unwrap();
        server.act("/policy?name=crawlers", &form).await;
    }
    let first = server.get("/policy?name=crawlers", "").await.body;
    let (_, next) = first.split_once("rel=\"next\" href=\"").expect("a second page");
    let next = next.split('"').next().unwrap().replace("&#38;", "&");
    let next = next.split('#').next().unwrap();
    let second = server.get(next, "").await.body;
    let banned = |page: &str| page.matches("Lift the ban").count();
    assert_eq!((banned(&first), banned(&second)), (50, 10), "{next}");
    let wrong = server.act("/policy?name=crawlers", "action=ban&key=k&minutes=0").await;
    assert!(wrong.contains("Not done") && wrong.contains("duration"), "{wrong}");
    assert_eq!(server.get("/policy?name=unknown", "").await.status, 404);
}
