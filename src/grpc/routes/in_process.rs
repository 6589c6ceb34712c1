//! Calls of the services within the process: for the console and the fuzz targets.

use hyper::Request;
use tollgate_http::InProcessAnswer;
use tonic::{Status, body::Body};

use super::Routes;
use crate::grpc::{failed, quota, rpcs, scope::Origin, status};

impl Routes {
    /// Calls the service of a request whose rights are checked, through tonic and within the limits of
    /// its namespace.
    pub(in crate::grpc) fn call_in_process(
        &self,
        request: Request<Body>,
        origin: Origin,
    ) -> InProcessAnswer {
        let known = rpcs::find(request.uri().path());
        if !self.router.has_service(&known.route) {
            return self.router.call_in_process(&known.route, request);
        }
        let engine = self.router.program().engine();
        let admitted = quota::admit_in_process(engine, &known.route, request.extensions());
        let calling = admitted
            .map(|in_flight| (in_flight, self.router.call_in_process(&known.route, request)));
        Box::pin(async move {
            let answer = match calling {
                Err(error) => status::from_error(error).into_http(),
                Ok((in_flight, calling)) => {
                    let answer = calling.await?;
                    drop(in_flight);
                    answer
                }
            };
            if let Some(status) = Status::from_header_map(answer.headers()) {
                failed::log(known.labels.service, known.labels.method, &origin, &status);
            }
            Ok(answer)
        })
    }
}
