//! What a requester counts.

use crate::counters::counters;

counters! {
    /// What a requester has counted.
    =>
    /// Payloads that were sent to the server.
    writes,
    /// Payloads that were asked for.
    reads,
    /// Payloads that came back.
    payloads,
    /// Payloads that lost their place to others before they were asked for.
    overtaken,
    /// Payloads that nobody needed any more.
    discarded,
    /// WRITEs that were lost, or may have been.
    writes_lost,
    /// Payloads that were asked for and did not reach the server, or of which it did not say that it has them.
    lost_write,
    /// Payloads that were asked for and did not come in time.
    lost_timeout,
    /// Payloads that came and were not what was written.
    lost_mismatch,
    /// Payloads that were asked for and lost with their server.
    lost_server,
    /// Payloads that were not taken because their queue pair had no life.
    refused_down,
    /// Payloads that were longer than a packet may be.
    refused_too_long,
    /// Payloads that were not taken because too many requests were under way, or are being sent again.
    refused_window,
    /// Payloads for which there was no room among those that are being read or must not lose their place yet.
    refused_memory,
    /// READs that were not taken because too many waited.
    reads_refused,
    /// READs of payloads that are not there: overtaken, lost, forged, read twice.
    reads_unknown,
    /// NAKs "sequence": a request was lost on the way.
    naks_sequence,
    /// NAKs "receiver not ready": the server asks for a pause.
    naks_not_ready,
    /// NAKs "invalid request" that ended a life.
    naks_invalid,
    /// NAKs "remote access" that ended a life.
    naks_access,
    /// NAKs "remote operation" that ended a life.
    naks_operation,
    /// Answers to later requests while an earlier READ had none.
    gaps,
    /// READs that were asked again.
    reads_repeated,
    /// Empty WRITEs in the place of lost requests, or to find out what the server has.
    empty_writes,
    /// Times in which nothing came.
    timeouts,
    /// Lives that ended by an error.
    disabled,
    /// Requests for new lives.
    restores,
    /// Lives that began.
    lives,
    /// Announcements of a server that was not known.
    incarnations,
    /// Announcements that are of no use: of another address or IP version than is expected, of another server of
    /// the same number, with too little memory or too few queue pairs.
    announcements_refused,
    /// Answers to a former life, or to no request.
    stale,
    /// Packets whose ICRC did not hold, or that are malformed.
    bad_icrc,
    /// Registration messages that were changed on their way or make no sense.
    bad_messages,
    /// Requests that waited because there was no buffer.
    no_buffer,
    /// Bytes sent to the server, with all headers.
    transmitted_bytes,
    /// Bytes that came from the server, with all headers.
    received_bytes,
}
