//! A pool: usage, leases, tasks, and the actions of an operator.

use askama::Template;
use tollgate_client::pb::{
    AttemptEnd, CancelTaskRequest, CancelVerdict, ConfigurePoolRequest, EvictTaskRequest,
    EvictVerdict, GetPoolRequest, Lease, ListLeasesRequest, ListTasksRequest, Pool,
    RequeueTaskRequest, RequeueVerdict, Task, TaskState,
    admission_service_client::AdmissionServiceClient,
};

use super::pools;
use crate::{
    chart::{Chart, ChartLine},
    fields::FormFields,
    format::{Ago, Left, count, duration, of_wire, percent},
    page::{ConsolePage, Problem},
    paging::Paging,
    pool_history::PoolStep,
    visit::{Visit, encoded, stored},
};
use tollgate_core::time::Timestamp;

/// Number of leases, and of tasks, on a page.
const PAGE: u32 = 25;

#[derive(Template)]
#[template(path = "pool_usage.html")]
struct UsageTemplate {
    pool: Pool,
    capacity: u32,
    in_use: u32,
    available: u32,
    over_by: u32,
    percent: u64,
    state: &'static str,
    queued: String,
    refused: String,
    refused_cached: String,
    oldest: Option<Ago>,
    next_end: Option<Left>,
    hold: Option<Left>,
}

#[derive(Template)]
#[template(path = "pool_chart.html")]
struct ChartTemplate {
    chart: Chart,
}

#[derive(Template)]
#[template(path = "pool_settings.html")]
struct SettingsTemplate {
    capacity: u32,
    paused: bool,
    lease_duration: String,
    expiry_grace: String,
    max_attempts: u32,
    overrides: String,
    may_configure: bool,
}

#[derive(Template)]
#[template(path = "pool_leases.html")]
struct LeasesTemplate {
    rows: Vec<LeaseRow>,
    may_evict: bool,
    paging: Paging,
}

struct LeaseRow {
    lease: Lease,
    age: Option<Ago>,
    left: Option<Left>,
}

#[derive(Template)]
#[template(path = "pool_tasks.html")]
struct TasksTemplate {
    title: &'static str,
    rows: Vec<TaskRow>,
    may_cancel: bool,
    may_requeue: bool,
    paging: Paging,
}

struct TaskRow {
    task: Task,
    state: &'static str,
    last_attempt: &'static str,
    queued: Option<Ago>,
    expires: Option<Left>,
}

fn ago(time: Option<&prost_types::Timestamp>, now: Timestamp) -> Option<Ago> {
    of_wire(time).map(|time| Ago::new(time, now))
}

fn left(time: Option<&prost_types::Timestamp>, now: Timestamp) -> Option<Left> {
    of_wire(time).map(|time| Left::new(time, now))
}

fn usage(pool: Pool, now: Timestamp) -> UsageTemplate {
    let usage = pool.usage.unwrap_or_default();
    UsageTemplate {
        capacity: usage.capacity,
        in_use: usage.in_use,
        available: usage.available,
        over_by: usage.over_by,
        percent: percent(usage.in_use.into(), usage.capacity.into()),
        state: pools::state(&pool),
        queued: count(pool.queued),
        refused: count(pool.refused),
        refused_cached: count(pool.refused_cached),
        oldest: ago(pool.oldest_grant_time.as_ref(), now),
        next_end: left(pool.next_expire_time.as_ref(), now),
        hold: left(pool.hold_end_time.as_ref(), now),
        pool,
    }
}

/// Draws the usage in the last 15 minutes, and records the current usage.
fn chart(visit: &Visit, now: PoolStep) -> Chart {
    let namespace = visit.permitted("AdmissionService/GetPool");
    let name = namespace.and_then(|namespace| stored(visit.name(), &namespace));
    let (pools, name) = (visit.pools(), name.as_ref());
    let steps = name.map(|name| pools.steps(name)).unwrap_or_default();
    name.into_iter().for_each(|name| pools.record(&visit.holder(), name, now));
    let line = |name, class, value: fn(&PoolStep) -> u32| ChartLine {
        name,
        class,
        values: steps.iter().map(|step| step.as_ref().map(|it| f64::from(value(it)))).collect(),
    };
    let lines = vec![
        line("in use", "one", |step| step.in_use),
        line("waiting", "two", |step| step.waiters),
        line("capacity", "limit", |step| step.capacity),
    ];
    let title = if name.is_some_and(|name| pools.samples(name)) {
        "In use, waiting and capacity"
    } else {
        "In use, waiting and capacity, while a page showed the pool"
    };
    Chart { title, lines }
}

fn settings(pool: &Pool, visit: &Visit) -> SettingsTemplate {
    let config = pool.config.clone().unwrap_or_default();
    SettingsTemplate {
        capacity: config.capacity,
        paused: config.paused,
        lease_duration: duration(config.lease_duration.as_ref()),
        expiry_grace: duration(config.expiry_grace.as_ref()),
        max_attempts: config.max_attempts,
        overrides: config.overrides.join(", "),
        may_configure: visit.may("AdmissionService/ConfigurePool"),
    }
}

/// Creates the links of a list on the page. `field` names both the part with the list and the query
/// field with its page token.
fn paging(visit: &Visit, of: &'static str, field: &str, next: &str) -> Paging {
    let name = encoded(visit.name());
    Paging::new(of, visit.query().get(field), next, |token| match token {
        "" => format!("/pool?name={name}#{field}"),
        token => format!("/pool?name={name}&{field}={}#{field}", encoded(token)),
    })
}

async fn leases(visit: &Visit) -> Result<LeasesTemplate, Problem> {
    let request = ListLeasesRequest {
        pool: visit.name().to_owned(),
        page_size: Some(PAGE),
        page_token: visit.query().get("leases").to_owned(),
    };
    let page = visit.client(AdmissionServiceClient::new).list_leases(request).await?.into_inner();
    let now = visit.now();
    let rows = page.leases.into_iter().map(|lease| LeaseRow {
        age: ago(lease.grant_time.as_ref(), now),
        left: left(lease.expire_time.as_ref(), now),
        lease,
    });
    Ok(LeasesTemplate {
        rows: rows.collect(),
        may_evict: visit.may("AdmissionService/EvictTask"),
        paging: paging(visit, "leases", "leases", &page.next_page_token),
    })
}

async fn tasks(
    visit: &Visit,
    state: TaskState,
    field: &'static str,
    title: &'static str,
) -> Result<TasksTemplate, Problem> {
    let request = ListTasksRequest {
        pool: visit.name().to_owned(),
        state: state.into(),
        page_size: Some(PAGE),
        page_token: visit.query().get(field).to_owned(),
    };
    let page = visit.client(AdmissionServiceClient::new).list_tasks(request).await?.into_inner();
    let now = visit.now();
    let rows = page.tasks.into_iter().map(|task| TaskRow {
        state: match task.state() {
            TaskState::Running => "running",
            TaskState::Dead => "dead",
            TaskState::Cancelled => "cancelled",
            TaskState::Expired => "expired",
            TaskState::Queued | TaskState::Unspecified => "queued",
        },
        last_attempt: match task.last_attempt_end() {
            AttemptEnd::Unspecified => "–",
            AttemptEnd::Failed => "failed",
            AttemptEnd::Expired => "expired",
            AttemptEnd::Evicted => "evicted",
        },
        queued: ago(task.enqueue_time.as_ref(), now),
        expires: left(task.expire_time.as_ref(), now),
        task,
    });
    Ok(TasksTemplate {
        title,
        rows: rows.collect(),
        may_cancel: state != TaskState::Dead && visit.may("AdmissionService/CancelTask"),
        may_requeue: state == TaskState::Dead && visit.may("AdmissionService/RequeueTask"),
        paging: paging(visit, title, field, &page.next_page_token),
    })
}

/// Loads the page.
pub(super) async fn load(visit: &Visit) -> Result<ConsolePage, Problem> {
    let request = GetPoolRequest { pool: visit.name().to_owned() };
    let pool = visit
        .client(AdmissionServiceClient::new)
        .get_pool(request)
        .await?
        .into_inner()
        .pool
        .unwrap_or_default();
    let used = pool.usage.unwrap_or_default();
    let step = PoolStep::new(used.in_use, used.capacity, pool.waiters);
    let chart = chart(visit, step);
    let settings = settings(&pool, visit);
    ConsolePage::new(visit.name())
        .live("usage", &usage(pool, visit.now()))?
        .live("chart", &ChartTemplate { chart })?
        .live("settings", &settings)?
        .live("leases", &leases(visit).await?)?
        .live("queued", &tasks(visit, TaskState::Unspecified, "queued", "queued tasks").await?)?
        .live("dead", &tasks(visit, TaskState::Dead, "dead", "dead tasks").await?)
}

/// Changes settings of the pool.
async fn configure(visit: &Visit, change: ConfigurePoolRequest) -> Result<(), Problem> {
    let request = ConfigurePoolRequest { pool: visit.name().to_owned(), ..change };
    visit.client(AdmissionServiceClient::new).configure_pool(request).await?;
    Ok(())
}

async fn evict(visit: &Visit, form: &FormFields) -> Result<String, Problem> {
    let (device, task) = (form.get("device"), form.get("task"));
    let request = EvictTaskRequest {
        pool: visit.name().to_owned(),
        device_id: device.to_owned(),
        task_id: task.to_owned(),
        reason: form.get("reason").to_owned(),
    };
    let answer = visit.client(AdmissionServiceClient::new).evict_task(request).await?.into_inner();
    match answer.verdict() {
        EvictVerdict::Evicted => Ok(format!("Evicted task {task} of device {device}.")),
        EvictVerdict::Ended => {
            Err(Problem::Invalid(format!("Task {task} of device {device} holds no slot.")))
        }
        EvictVerdict::Unknown | EvictVerdict::Unspecified => {
            Err(Problem::Absent(format!("Task {task} of device {device} is unknown.")))
        }
    }
}

async fn cancel(visit: &Visit, form: &FormFields) -> Result<String, Problem> {
    let (device, task) = (form.get("device"), form.get("task"));
    let request = CancelTaskRequest {
        pool: visit.name().to_owned(),
        device_id: device.to_owned(),
        task_id: task.to_owned(),
    };
    let answer = visit.client(AdmissionServiceClient::new).cancel_task(request).await?.into_inner();
    match answer.verdict() {
        CancelVerdict::Cancelled => Ok(format!("Cancelled task {task} of device {device}.")),
        CancelVerdict::Running => Ok(format!(
            "Cancelled task {task} of device {device}. Its lease runs until it ends or is evicted."
        )),
        CancelVerdict::Completed => {
            Err(Problem::Invalid(format!("Task {task} of device {device} has a result.")))
        }
        CancelVerdict::Unknown | CancelVerdict::Unspecified => {
            Err(Problem::Absent(format!("Task {task} of device {device} is not queued.")))
        }
    }
}

async fn requeue(visit: &Visit, form: &FormFields) -> Result<String, Problem> {
    let (device, task) = (form.get("device"), form.get("task"));
    let request = RequeueTaskRequest {
        pool: visit.name().to_owned(),
        device_id: device.to_owned(),
        task_id: task.to_owned(),
    };
    let mut admission = visit.client(AdmissionServiceClient::new);
    let answer = admission.requeue_task(request).await?.into_inner();
    let why = match answer.verdict() {
        RequeueVerdict::Requeued => {
            return Ok(format!("Queued task {task} of device {device} again."));
        }
        RequeueVerdict::AlreadyQueued => "is queued already",
        RequeueVerdict::NotDead => "is not dead",
        RequeueVerdict::Expired => "has expired",
        RequeueVerdict::Full => "stays dead: the pool has its maximum of queued tasks",
        RequeueVerdict::Unknown | RequeueVerdict::Unspecified => "is unknown",
    };
    Err(Problem::Invalid(format!("Task {task} of device {device} {why}.")))
}

/// Runs an action.
pub(super) async fn act(visit: &Visit, form: &FormFields) -> Result<String, Problem> {
    let paused = |paused| ConfigurePoolRequest { paused: Some(paused), ..Default::default() };
    match form.get("action") {
        "pause" => {
            configure(visit, paused(true)).await?;
            Ok("Paused the pool: no new task is admitted.".to_owned())
        }
        "resume" => {
            configure(visit, paused(false)).await?;
            Ok("Resumed the pool.".to_owned())
        }
        "capacity" => {
            let capacity = form.number("capacity")?;
            let change = ConfigurePoolRequest { capacity: Some(capacity), ..Default::default() };
            configure(visit, change).await?;
            Ok(format!("Set the capacity to {capacity}."))
        }
        "reset" => {
            let change = ConfigurePoolRequest { reset: Some(true), ..Default::default() };
            configure(visit, change).await?;
            Ok("Removed the run-time settings: those of the configuration apply.".to_owned())
        }
        "evict" => evict(visit, form).await,
        "cancel" => cancel(visit, form).await,
        "requeue" => requeue(visit, form).await,
        _ => Err(Problem::Invalid("no such action".to_owned())),
    }
}
