//! Each model with the code that ships, and with mistakes that it must find.

use cuda_models::*;

#[test]
fn tracker() {
    no_use_is_missed();
}

#[test]
#[should_panic(expected = "is missed")]
fn tracker_that_counts_before_it_raises_the_flag() {
    no_use_is_missed_counting_first();
}

#[test]
#[should_panic(expected = "is missed")]
fn tracker_asked_before_the_use_is_numbered() {
    no_use_is_missed_looking_first();
}

#[test]
#[should_panic(expected = "is missed")]
fn tracker_whose_record_is_not_awaited() {
    no_use_is_missed_taking_what_is_known();
}

#[test]
fn guards() {
    the_host_looks_alone();
}

#[test]
#[should_panic(expected = "the device writes under a guard")]
fn guards_without_the_turn() {
    the_host_looks_alone_without_a_turn();
}

#[test]
#[should_panic(expected = "guard")]
fn guards_that_are_counted_in_two_steps() {
    the_host_looks_alone_counting_in_two_steps();
}

#[test]
fn host_functions() {
    functions_are_called_and_dropped();
}

#[test]
#[should_panic(expected = "calls of a function of its own")]
fn host_functions_numbered_in_two_steps() {
    functions_are_called_and_dropped_numbering_in_two_steps();
}

#[test]
// The function panics, since it can't get the lock, and no panic may unwind into the driver.
#[should_panic(expected = "two calls at the same time")]
fn host_functions_called_under_the_lock() {
    functions_are_called_and_dropped_under_the_lock();
}

#[test]
fn bin() {
    nothing_is_lost_or_freed_in_use();
}

#[test]
#[should_panic(expected = "is freed while in use")]
fn bin_that_waits_before_it_takes() {
    nothing_is_lost_or_freed_in_use_waiting_first();
}

#[test]
#[should_panic(expected = "was not wanted")]
fn bin_that_takes_in_two_steps() {
    nothing_is_lost_or_freed_in_use_taking_in_two_steps();
}

#[test]
fn lent_streams() {
    each_stream_is_left_to_one_call();
}

#[test]
#[should_panic(expected = "stream")]
fn lent_streams_taken_in_two_steps() {
    each_stream_is_left_to_one_call_taking_in_two_steps();
}

#[test]
#[should_panic(expected = "streams that were left")]
fn lent_streams_whose_place_is_overwritten() {
    each_stream_is_left_to_one_call_overwriting();
}

#[test]
fn crew() {
    lent_work_is_taken_back();
}

#[test]
#[should_panic(expected = "had taken back")]
fn crew_that_leaves_early() {
    lent_work_is_taken_back_without_waiting();
}

#[test]
#[should_panic(expected = "deadlock")]
fn crew_that_tells_nobody() {
    lent_work_is_taken_back_telling_nobody();
}

#[test]
#[should_panic(expected = "had taken back")]
fn crew_that_joins_late() {
    lent_work_is_taken_back_joining_late();
}

#[test]
fn versions() {
    no_write_is_missed();
}

#[test]
#[should_panic(expected = "is missed")]
fn versions_where_a_report_counts_as_work() {
    no_write_is_missed_reporting_as_work();
}
