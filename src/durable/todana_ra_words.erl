%% The reasons of Ra's processes as sentences.
-module(todana_ra_words).
-moduledoc false.

-export([describe/1, is_full/1, full/2, is_known/1, remember/1, names/2]).

%% How many parts of a reason are searched for a known cause.
-define(TERMS_MAX, 1_000).
%% A report of a cause, and the end of the processes that it ends.
-define(CAUSE_MS_MAX, 10_000).

-doc "A reason why the log does not run, as a sentence.".
-spec describe(term()) -> string().
describe({ra_log_segment_crc_check_failure, Index, _Place, File}) ->
    Why = io_lib:format("entry ~0p is damaged: ~ts", [
        Index, todana_log_remedy:of_running()
    ]),
    todana_log_problem:describe({unusable, File, Why});
describe({ra, {"no such file or directory", _}}) ->
    "durable databases need the Erlang library ra";
%% Of supervisors that have given up.
describe({server, Reason}) when Reason =:= shutdown; Reason =:= killed ->
    describe(Reason);
describe(Reason) when Reason =:= shutdown; Reason =:= killed ->
    ended();
describe(Reason) ->
    case todana_log_problem:is_problem(Reason) of
        true ->
            todana_log_problem:describe(Reason);
        false ->
            case io_lib:printable_unicode_list(Reason) of
                true when Reason =/= "" -> Reason;
                _ -> cause(Reason)
            end
    end.

-doc "Whether a reason says that the disk, or its quota, is exhausted.".
-spec is_full(term()) -> boolean().
is_full({unusable, _File, Why}) ->
    lists:member(Why, [file:format_error(Error) || Error <- full_errors()]);
is_full(Reason) ->
    not todana_log_problem:is_problem(Reason) andalso
        known(Reason) =/= [] andalso
        lists:member(hd(known(Reason)), [
            Words || {Error, Words} <- causes(),
                     lists:member(Error, full_errors())
        ]).

-doc "Such a reason as a sentence that names the directory.".
-spec full(file:filename(), term()) -> string().
full(DataDir, Reason) ->
    Head = lists:flatten(io_lib:format("the disk of ~ts is full", [DataDir])),
    case todana_log_problem:is_problem(Reason) of
        true -> lists:concat([Head, ": ", describe(Reason)]);
        false -> Head
    end.

-spec full_errors() -> [atom()].
full_errors() -> [enospc, edquot].

-spec cause(term()) -> string().
cause(Reason) ->
    case known(Reason) of
        [ended | _] -> ended();
        [Words | _] -> Words;
        [] when element(1, Reason) =:= server; element(1, Reason) =:= system ->
            "Ra does not start, for the reason in its errors before this line";
        [] -> lists:flatten(unknown(Reason))
    end.

%% A reason may contain the whole state of a process.
-spec unknown(term()) -> iolist().
unknown({Reason, [{Module, Function, _, _} | _]}) ->
    io_lib:format("the server of the log ended with ~0tP in ~ts:~ts", [
        Reason, 12, Module, Function
    ]);
unknown(Reason) ->
    io_lib:format("~0tP", [Reason, 30]).

%% The words for the causes in this term.
-spec known(term()) -> [string() | ended].
known(Reason) ->
    Atoms = atoms(Reason, ?TERMS_MAX),
    [Words || {Atom, Words} <- causes(), lists:member(Atom, Atoms)].

-doc "Whether a report of Ra's says no more than a sentence of Todana's.".
-spec is_known(term()) -> boolean().
is_known(Report) ->
    Atoms = atoms(Report, ?TERMS_MAX),
    known(Report) =/= [] orelse lists:any(
        fun(Atom) -> lists:member(Atom, Atoms) end,
        %% Supervisors that give up, and an end by `todana_group_notes'.
        [reached_max_restart_intensity, shutdown, todana]
    ).

-spec causes() -> [{atom(), string() | ended}].
causes() ->
    Remedy = todana_log_remedy:of_running(),
    [
        {wal_checksum_validation_failure, "a record of the log is damaged"},
        {ra_log_segment_crc_check_failure,
            "a segment file of the log is damaged: " ++ Remedy},
        {gap_detected, "entries of the log are missing: " ++ Remedy},
        {gap_between_snapshot_and_log,
            "entries of the log are missing: " ++ Remedy},
        %% A leader whose follower is ahead of it.
        {make_rpc_effect, "another member has entries of the log that this one "
            "does not have: the members find out which of them has to stop"},
        {enospc, "the disk is full"},
        {edquot, "the quota of the disk is exhausted"},
        {erofs, "the file system is read-only"},
        {emfile, "too many files are open"},
        {enfile, "too many files are open on this host"},
        {eio, "the disk reports an input/output error"},
        {eacces, "a file of the data directory may not be opened"},
        {eperm, "a file of the data directory may not be changed"},
        {noproc, ended}
    ].

%% With the cause that a report had which was left out, or else the reports are
%% in the log.
-spec ended() -> string().
ended() ->
    case persistent_term:get(?MODULE, none) of
        {Words, AtMs} ->
            case erlang:monotonic_time(millisecond) - AtMs of
                Ms when Ms < ?CAUSE_MS_MAX -> Words;
                _ -> unexplained()
            end;
        none ->
            unexplained()
    end.

-spec unexplained() -> string().
unexplained() ->
    "processes of the log ended, and the messages of Ra before this one say "
    "why".

-doc "Whether a report of Ra's has an atom for which this is true.".
-spec names(term(), fun((atom()) -> boolean())) -> boolean().
names(Report, Is) -> lists:any(Is, atoms(Report, ?TERMS_MAX)).

-doc "Remembers the cause that a report names: such a report is left out.".
-spec remember(term()) -> ok.
remember(Report) ->
    case [Words || Words <- known(Report), Words =/= ended] of
        [Words | _] ->
            NowMs = erlang:monotonic_time(millisecond),
            case persistent_term:get(?MODULE, none) of
                %% A new term costs each process of the node something.
                {Words, AtMs} when NowMs - AtMs < ?CAUSE_MS_MAX div 2 -> ok;
                _ -> persistent_term:put(?MODULE, {Words, NowMs})
            end;
        [] ->
            ok
    end.

%% The atoms in the first parts of a term.
-spec atoms(term(), pos_integer()) -> [atom()].
atoms(Term, Most) -> atoms([Term], Most, []).

-spec atoms([term()], non_neg_integer(), [atom()]) -> [atom()].
atoms([], _Left, Atoms) ->
    Atoms;
atoms(_Terms, 0, Atoms) ->
    Atoms;
atoms([Term | Terms], Left, Atoms) when is_atom(Term) ->
    atoms(Terms, Left - 1, [Term | Atoms]);
atoms([Term | Terms], Left, Atoms) when is_tuple(Term) ->
    atoms(tuple_to_list(Term) ++ Terms, Left - 1, Atoms);
atoms([[Head | _] = Text | Terms], Left, Atoms) when is_integer(Head) ->
    atoms([without_characters(Text) | Terms], Left - 1, Atoms);
atoms([[Head | Tail] | Terms], Left, Atoms) ->
    atoms([Head, Tail | Terms], Left - 1, Atoms);
atoms([Term | Terms], Left, Atoms) when is_map(Term) ->
    atoms(maps:values(Term) ++ Terms, Left - 1, Atoms);
atoms([_Other | Terms], Left, Atoms) ->
    atoms(Terms, Left - 1, Atoms).

%% What follows a text, or numbers, in a list.
-spec without_characters(term()) -> term().
without_characters([Head | Tail]) when is_integer(Head) ->
    without_characters(Tail);
without_characters(Rest) ->
    Rest.
