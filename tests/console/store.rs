//! The pages while Redis does not answer.

use tollgate_client::pb::{self, admin_service_client::AdminServiceClient};

use crate::{
    browser::Browser,
    console::{Console, Engine},
    support::requests::patient,
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

#[tokio::test(flavor = "multi_thread")]
async fn j2_a_loss_is_a_banner_on_each_page_until_it_is_accepted() {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(Engine::Redis).await;
    console.sign_in(&browser, &console.operator, "/").await;
    browser.until("the state", async || browser.text().await.contains("Store up")).await;
    assert_eq!(browser.count("#loss .message").await, 0);
    let redis = console.redis.as_ref().expect("it is on Redis");
    redis.command(&["FLUSHALL"]).await.unwrap();
    for page in ["/", "/sequences", "/system"] {
        browser.open(&console.url(page)).await;
        browser.shows("The store has lost its data.").await;
        browser.is_sound("a page with the banner").await;
    }
    browser.open(&console.url("/")).await;
    let mut admin = AdminServiceClient::new(console.signed());
    admin.accept_store_loss(patient(pb::AcceptStoreLossRequest {})).await.unwrap();
    browser.until("no banner", async || browser.count("#loss .message").await == 0).await;
}
