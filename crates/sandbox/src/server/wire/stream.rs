//! Response bodies that end early or fail.

use axum::body::{Body, BodyDataStream};
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use http::header::CONTENT_LENGTH;

use super::refusal;
use crate::in_process::ConnectionReset;

/// Fails the body after `after` bytes, or at the end of a shorter body.
pub(super) fn cut(response: Response, after: usize) -> Response {
    let (parts, body) = response.into_parts();
    let pieces = stream::unfold(Some((body.into_data_stream(), after)), |state| async move {
        let (mut body, left) = state?;
        if left == 0 {
            return Some((Err(axum::Error::new(ConnectionReset)), None));
        }
        match body.next().await {
            Some(Ok(mut piece)) => {
                piece.truncate(left);
                let left = left - piece.len();
                Some((Ok(piece), Some((body, left))))
            }
            Some(Err(error)) => Some((Err(error), None)),
            None => Some((Err(axum::Error::new(ConnectionReset)), None)),
        }
    });
    Response::from_parts(parts, Body::from_stream(pieces))
}

/// Ends a watch normally after `after` events.
pub(super) fn close(response: Response, after: usize) -> Response {
    end_with(response, after, None)
}

/// Ends a watch with an ERROR event, 410, after `after` events.
pub(super) fn expire(response: Response, after: usize) -> Response {
    end_with(response, after, Some(Bytes::from(format!("{}\n", refusal::watch_expired()))))
}

fn end_with(response: Response, after: usize, last: Option<Bytes>) -> Response {
    // A refused watch has no events.
    if !response.status().is_success() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    let events = lines(body.into_data_stream()).take(after);
    Response::from_parts(parts, Body::from_stream(events.chain(stream::iter(last.map(Ok)))))
}

/// Lines of a body with their line feeds, independent of its chunks.
pub(crate) fn lines(body: BodyDataStream) -> impl Stream<Item = Result<Bytes, axum::Error>> + Send {
    stream::unfold((body, Vec::new()), |(mut body, mut rest): (_, Vec<u8>)| async move {
        loop {
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let after = rest.split_off(end + 1);
                return Some((Ok(Bytes::from(rest)), (body, after)));
            }
            match body.next().await {
                Some(Ok(piece)) => rest.extend_from_slice(&piece),
                Some(Err(error)) => return Some((Err(error), (body, Vec::new()))),
                None if rest.is_empty() => return None,
                None => return Some((Ok(Bytes::from(std::mem::take(&mut rest))), (body, Vec::new()))),
            }
        }
    })
}
