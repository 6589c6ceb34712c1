//! The pages while Redis does not answer.

use crate::{
    browser::Browser,
    console::{Console, Engine},
};

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_the_last_numbers_stay_with_their_age() {
    let Some(browser) = Browser::start().await else { return };
    let mut console = Console::start(Engine::Redis).await;
    console.admit("p", "camera", "scan").await;
    console.sign_in(&browser, &console.operator, "/pool?name=p").await;
    browser.until("the lease", async || browser.rows("leases").await.len() == 1).await;
    browser.is_sound("a pool").await;

    console.redis.as_mut().expect("it is on Redis").kill();
    browser.shows("Old numbers.").await;
    browser.until("the state", async || browser.text().await.contains("Store down")).await;
    assert_eq!(browser.rows("leases").await[0][..2], ["camera", "scan"]);
    let age = browser.find("#notice time").await.text().await.unwrap();
    assert!(age.ends_with(" s"), "{age}");
    browser.is_sound("a pool without a store").await;
    browser.click("button[value=pause]").await;
    browser.shows("Not done.").await;
    // A new page shows the last numbers, too; one that was never shown has none.
    assert_eq!(browser.rows("leases").await.len(), 1);
    browser.open(&console.url("/pool?name=other")).await;
    browser.shows("No numbers.").await;

    console.redis.as_mut().expect("it is on Redis").start().await;
    browser.open(&console.url("/pool?name=p")).await;
    browser.until("the state", async || browser.text().await.contains("Store up")).await;
    browser.until("no notice", async || browser.count("#notice .message").await == 0).await;
}
