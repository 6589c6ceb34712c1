//! Sequences: the list, filtered by prefix, and the page of one sequence.

use askama::Template;
use tollgate_client::pb::{
    GetSequenceRequest, GetSequenceResponse, ListSequencesRequest, Sequence,
    sequence_service_client::SequenceServiceClient,
};

use super::names::{self, NamesFilter, PAGE};
use crate::{
    format::{Moment, count, of_wire},
    page::{ConsolePage, Problem},
    paging::Paging,
    visit::{Visit, encoded},
};

#[derive(Template)]
#[template(path = "sequences_list.html")]
struct SequencesTemplate {
    rows: Vec<SequenceRow>,
    unreadable: Vec<String>,
    paging: Paging,
}

struct SequenceRow {
    link: String,
    sequence: Sequence,
    updated: Option<Moment>,
}

#[derive(Template)]
#[template(path = "sequence_value.html")]
struct ValueTemplate {
    value: GetSequenceResponse,
    updated: Option<Moment>,
    server_values: String,
    server_script_calls: String,
}

/// Loads the list.
pub(super) async fn load(visit: &Visit) -> Result<ConsolePage, Problem> {
    let page =
        ConsolePage::new("Sequences").fixed("filter", &NamesFilter::new(visit, "/sequence"))?;
    let request = ListSequencesRequest {
        prefix: visit.query().get("prefix").to_owned(),
        page_size: Some(PAGE),
        page_token: visit.query().get("page").to_owned(),
    };
    let listed = match visit.client(SequenceServiceClient::new).list_sequences(request).await {
        Ok(listed) => listed.into_inner(),
        Err(status) => return page.lacking_or(status),
    };
    let rows = listed.sequences.into_iter().map(|sequence| SequenceRow {
        link: encoded(&sequence.name),
        updated: of_wire(sequence.update_time.as_ref()).map(Moment),
        sequence,
    });
    let list = SequencesTemplate {
        rows: rows.collect(),
        unreadable: listed.unreadable,
        paging: names::paging(visit, &listed.next_page_token),
    };
    page.live("sequences", &list)
}

/// Loads the page of one sequence.
pub(super) async fn load_one(visit: &Visit) -> Result<ConsolePage, Problem> {
    let request = GetSequenceRequest { name: visit.name().to_owned() };
    let mut sequences = visit.client(SequenceServiceClient::new);
    let value = sequences.get_sequence(request).await?.into_inner();
    let value = ValueTemplate {
        updated: of_wire(value.update_time.as_ref()).map(Moment),
        server_values: count(value.server_values),
        server_script_calls: count(value.server_script_calls),
        value,
    };
    ConsolePage::new(visit.name()).live("value", &value)
}
