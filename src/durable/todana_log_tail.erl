%% What a power failure has left of the end of the log, before Ra reads it.
%%
%% Ra accepts a record that fails its checksum if it is the last one of a file,
%% and otherwise does not start. After a power failure that is too strict: a
%% disk writes the sectors of one write in any order, so some records of the
%% last write may be there and an earlier one not. It is too lenient as well: it
%% drops a last record that was confirmed, and damaged later.
%%
%% When is it safe to cut the log at the first bad record?
%%
%% `always'. The log is written by one process in turns: it writes the records
%% that it has got to the end of the newest file, calls fdatasync, and only
%% then reports the records as written, after which they are applied and
%% confirmed. A new file is begun after the fdatasync of the old one. So the
%% power can leave only one write incomplete: the last one. None of its records
%% is confirmed, and it reaches to the end of the last file that has records.
%% If the first bad record was torn by the power, then, it belongs to that write
%% and so does all behind it, and cutting there loses nothing that was
%% confirmed. If the medium or a program damaged it, cutting may lose confirmed
%% writes. Two things tell a torn record:
%%
%% - A part of it was never written. Behind the last write there was the end of
%%   the file, or room that reads as zeros (todana_log_extent), so a sector that
%%   is missing reads as zeros, or the file ends within the record. A flipped
%%   bit or a strange byte does not look like that.
%% - At most as many batches are behind it as are on their way at once: the
%%   batch after those is sent when the first of them is confirmed. A batch that
%%   was sent again, since it took long, counts once. With more of them behind
%%   it the bad record was confirmed, whatever it looks like.
%%
%% Both must hold. And whatever the record looks like, it was confirmed if
%% todana_log_mark names it or a later entry, several times a second. What
%% remains is a record with a sector of zeros in its own data that is damaged by
%% something else within the last four batches and half a second.
%%
%% After an fdatasync that failed there are later files, too, and the earlier
%% one may only end too early, without a bad record. Segment files have what is
%% missing, see todana_log_cover, or nothing behind it is confirmed, and the
%% batches are counted as above.
%%
%% `everysec'. The files are synchronized once a second, so all writes since
%% then may be torn anywhere, in the newest file and in those before it.
%% Confirmed writes of that second may be lost, and Ra needs a log without gaps:
%% so it is cut at the first bad record if a part of it was never written, if
%% the readable records behind it are of one short time, and if it is behind the
%% entry that todana_log_mark names as synchronized. Later files go too.
%%
%% In both, a bad record is of no interest if the next file with records begins
%% at its index or an earlier one: the records were written again there, after
%% the log had failed. With `always' the same holds for a record that an earlier
%% file ends within, or that has only zeros from some place on: the bytes of a
%% file and its length were on disk before it had a successor, so the record was
%% never written to its end.
%%
%% All else is refused, with the file and the offset. `repair' then cuts at the
%% first bad record because a person asked for it.
-module(todana_log_tail).
-moduledoc false.

-export([mend/3, repair/3, examine/3]).

%% With `everysec': between the first and the last readable record behind a torn
%% one. A second, and what the fdatasync may take that then begins.
-define(UNSYNCED_MS_MAX, 10_000).

-type file() :: {file:filename(), todana_log_file:scanned()}.
-type cut() :: todana_log_cut:cut().
-type problem() :: todana_log_problem:problem().

-doc """
Cuts off what a power failure has torn, in the files of a log that was written
with this durability. The part behind the cut is kept in `damaged`.
""".
-spec mend(file:filename(), binary(), todana_data_dir:durability()) ->
    ok | {error, problem()}.
mend(Directory, UId, Durability) ->
    Server = filename:join(Directory, binary_to_list(UId)),
    maybe
        {ok, Scanned} ?= scan(Directory, UId),
        {ok, Files} ?= todana_log_cut:set_aside(Scanned, Server),
        {cut, Cut} ?= judged(Files, Server, Durability),
        {ok, Copies} ?= todana_log_cut:cut(Cut, UId, tail),
        logger:warning(
            "todana: the last write to the log is not whole, as after a power "
            "failure: ~ts; ~ts; the rest is kept in ~ts",
            [
                todana_log_cut:where(Cut), todana_log_cut:loss(Durability, Cut),
                lists:join(", ", Copies)
            ]
        ),
        mend(Directory, UId, Durability)
    else
        {whole, Whole} ->
            maybe
                ok ?= todana_log_cut:set_aside_segments(Whole, Server),
                todana_log_copies:mend(Whole, Server, Durability)
            end;
        {error, Problem} -> {error, Problem}
    end.

-doc """
Says why a start with these files would refuse, after it has cut off what a
power failure has torn.
""".
-spec examine([file()], file:filename(), todana_data_dir:durability()) ->
    ok | {error, problem()}.
examine(Scanned, Server, Durability) ->
    Aside = todana_log_cover:superseded(Scanned, Server),
    Files = [File || {Name, _} = File <- Scanned,
                     not lists:member(Name, Aside)],
    case judged(Files, Server, Durability) of
        {error, Problem} -> {error, Problem};
        {whole, Whole} -> todana_log_copies:examine(Whole, Server, Durability);
        {cut, _} -> ok
    end.

%% What a power failure has torn, or why it was something else.
-spec judged([file()], file:filename(), todana_data_dir:durability()) ->
    {cut, cut()} | {whole, [file()]} | {error, problem()}.
judged(Files, Server, Durability) ->
    case first_damage(Files, Durability) of
        undamaged ->
            case todana_log_missing:problems(Files, Server) of
                [] -> {whole, Files};
                [Problem | _] -> {error, Problem}
            end;
        {cut, Cut} ->
            maybe
                ok ?= judge(Durability, Cut),
                ok ?= is_unconfirmed(Cut, Files, Server),
                {cut, Cut}
            end
    end.

-doc """
Cuts the log at its first bad record, whatever the cause. Returns what was done,
as sentences. Refuses, and changes nothing, if a segment file or a snapshot is
damaged or missing: without it, what is behind it cannot be applied.
""".
-spec repair(file:filename(), binary(), todana_data_dir:durability()) ->
    undamaged | {ok, iolist()} | {error, problem()}.
repair(Directory, UId, Durability) ->
    Server = filename:join(Directory, binary_to_list(UId)),
    maybe
        ok ?= todana_log_missing:are_whole(Server),
        {ok, Files} ?= scan(Directory, UId),
        case first_damage(Files, Durability) of
            {cut, Cut} -> repair_cut(Cut, Files, UId, Server);
            undamaged -> repair_end(Files, Server)
        end
    end.

-spec repair_cut(cut(), [file()], binary(), file:filename()) ->
    {ok, iolist()} | {error, problem()}.
repair_cut(Cut, Files, UId, Server) ->
    Known = case Cut of
        #{is_superseded := true} -> "";
        #{} -> known_loss(confirmed_behind(Cut, Files, Server))
    end,
    maybe
        {ok, Copies} ?= todana_log_cut:cut(Cut, UId, whole),
        ok ?= todana_log_mark:forget(Server),
        {ok, [
            todana_log_cut:where(Cut), ".\n", todana_log_cut:repaired(Cut),
            ".\n", Known, "The files as they were: ",
            lists:join(", ", Copies), "\n"
        ]}
    end.

%% The note may be older than the last confirmed write.
-spec known_loss(
    none | {non_neg_integer(), non_neg_integer()} | {error, problem()}
) -> iolist().
known_loss({End, Confirmed}) ->
    ["Lost are at least ", confirmed_entries(End, Confirmed), "; an entry has "
     "one write, or several.\n"];
known_loss(_None) ->
    "No entry that is lost is known to be confirmed.\n".

-spec confirmed_entries(non_neg_integer(), non_neg_integer()) -> iolist().
confirmed_entries(End, Confirmed) when Confirmed =:= End + 1 ->
    io_lib:format("1 confirmed entry, ~b", [Confirmed]);
confirmed_entries(End, Confirmed) ->
    io_lib:format("~b confirmed entries, ~b to ~b",
                  [Confirmed - End, End + 1, Confirmed]).

-spec repair_end([file()], file:filename()) ->
    undamaged | {ok, iolist()} | {error, problem()}.
repair_end(Files, Server) ->
    case todana_log_missing:problems(Files, Server) of
        [] ->
            undamaged;
        [{short, File, Why}] ->
            Behind = todana_log_missing:confirmed_behind(Files, Server),
            maybe
                ok ?= todana_log_mark:forget(Server),
                {ok, [File, ": ", Why, ". The next start accepts that.\n",
                      known_loss(Behind)]}
            end;
        [Problem | _] ->
            {error, Problem}
    end.

%% ------------------------------------------------------------------ find ---

-spec scan(file:filename(), binary()) -> {ok, [file()]} | {error, problem()}.
scan(Directory, UId) ->
    case file:list_dir(Directory) of
        {ok, Names} ->
            Files = [
                filename:join(Directory, Name)
             || Name <- lists:sort(Names), filename:extension(Name) =:= ".wal"
            ],
            scan_each(Files, UId, []);
        {error, enoent} ->
            {ok, []};
        {error, Reason} ->
            {error, {unusable, Directory, file:format_error(Reason)}}
    end.

-spec scan_each([file:filename()], binary(), [file()]) ->
    {ok, [file()]} | {error, problem()}.
scan_each([], _UId, Scanned) ->
    {ok, lists:reverse(Scanned)};
scan_each([File | Files], UId, Scanned) ->
    IsBegun = todana_log_file:is_begun(File),
    case todana_log_file:scan(File, UId) of
        {ok, Found} ->
            scan_each(Files, UId, [{File, Found} | Scanned]);
        {error, format} when IsBegun ->
            scan_each(Files, UId, Scanned);
        {error, format} ->
            {error, {missing, File, "this is not a file of the log"}};
        {error, Reason} ->
            {error, {unusable, File, file:format_error(Reason)}}
    end.

%% What a cut at the first damage takes away.
-spec first_damage([file()], todana_data_dir:durability()) ->
    {cut, cut()} | undamaged.
first_damage([], _Durability) ->
    undamaged;
first_damage([{File, #{damage := none} = Scanned} | Files], Durability) ->
    case {Scanned, todana_log_cover:lowest(Files)} of
        {#{last := #{index := Last}}, [Next]} when Next > Last + 1 ->
            {cut, gap(File, Scanned, Files)};
        _ ->
            first_damage(Files, Durability)
    end;
first_damage([{File, #{damage := Damage} = Scanned} | Files], Durability) ->
    #{bytes := Bytes, last := Last} = Scanned,
    #{
        offset := Offset, is_torn := IsTorn, is_short := IsShort,
        behind := Behind
    } = Damage,
    Cut = #{
        file => File, offset => Offset, bytes => Bytes, is_torn => IsTorn,
        last => Last, lost => Behind, later => [],
        is_superseded => false
    },
    case {Last, [First || {_, #{first := #{} = First}} <- Files]} of
        {#{index := Index}, [#{index := Next} | _]} when Next =< Index + 1 ->
            {cut, Cut#{lost := [], is_superseded := true}};
        {_, []} ->
            {cut, Cut};
        {#{}, [_ | _]} when IsShort, Durability =:= always ->
            {cut, Cut};
        {_, _} ->
            {cut, Cut#{
                lost := Behind ++ lists:append([entries(S) || {_, S} <- Files]),
                later := lists:reverse([Name || {Name, _} <- Files])
            }}
    end.

%% A file that ends before the next one begins.
-spec gap(file:filename(), todana_log_file:scanned(), [file()]) -> cut().
gap(File, #{bytes := Bytes, last := Last}, Files) ->
    #{
        file => File, offset => Bytes, bytes => Bytes, is_torn => true,
        last => Last, lost => lists:append([entries(S) || {_, S} <- Files]),
        later => lists:reverse([Name || {Name, _} <- Files]),
        is_superseded => false
    }.

-spec entries(todana_log_file:scanned()) -> [todana_log_file:entry()].
entries(#{first := First, last := Last, damage := Damage}) ->
    [Entry || Entry <- [First, Last], Entry =/= none] ++
        case Damage of
            none -> [];
            #{behind := Behind} -> Behind
        end.

%% ----------------------------------------------------------------- judge ---

-spec judge(todana_data_dir:durability(), cut()) -> ok | {error, problem()}.
judge(Durability, #{file := File, offset := Offset, bytes := Bytes} = Cut) ->
    case reason_against(Durability, Cut) of
        none -> ok;
        Why when Offset < Bytes -> {error, {damaged, File, Offset, Why}};
        Why -> {error, {ended, File, [absent(Cut), Why]}}
    end.

%% What the note names was confirmed, so that no power failure has torn it.
-spec is_unconfirmed(cut(), [file()], file:filename()) ->
    ok | {error, problem()}.
is_unconfirmed(Cut, Files, Server) ->
    case confirmed_behind(Cut, Files, Server) of
        none -> ok;
        {error, Problem} -> {error, Problem};
        {End, Confirmed} -> {error, confirmed(Cut, End, Confirmed)}
    end.

%% Where the log then ends, and what is noted as confirmed behind that.
-spec confirmed_behind(cut(), [file()], file:filename()) ->
    none | {non_neg_integer(), non_neg_integer()} | {error, problem()}.
confirmed_behind(#{file := File, later := Later}, Files, Server) ->
    Left = [
        {Name, case Name of
            File -> Scanned#{damage := none};
            _ -> Scanned
        end}
     || {Name, Scanned} <- Files, not lists:member(Name, Later)
    ],
    todana_log_missing:confirmed_behind(Left, Server).

-spec confirmed(cut(), non_neg_integer(), non_neg_integer()) -> problem().
confirmed(#{file := File, offset := Offset, bytes := Bytes}, End, Confirmed) ->
    Noted = io_lib:format("entry ~b was confirmed", [Confirmed]),
    case Offset < Bytes of
        true ->
            {damaged, File, Offset, ["and not by a power failure: ", Noted]};
        false ->
            {ended, File, [
                todana_log_problem:entries(End + 1, Confirmed),
                " behind its end, and ", Noted
            ]}
    end.

%% Between the end of a file and the next one.
-spec absent(cut()) -> iodata().
absent(#{last := #{index := Last}, lost := [#{index := Next} | _]}) ->
    [todana_log_problem:entries(Last + 1, Next - 1), " behind its end, "].

-spec reason_against(todana_data_dir:durability(), cut()) -> none | iodata().
reason_against(_Durability, #{is_superseded := true}) ->
    none;
reason_against(_Durability, #{is_torn := false}) ->
    "and not by a power failure";
reason_against(always, #{lost := Lost, later := Later}) ->
    Sequences = lists:usort([S || #{sequence := S} <- Lost]),
    Batches = case Later of
        [] -> length(Sequences);
        %% Of a later file, only its ends are known here. Entries of the
        %% batches of other members alone have negative numbers.
        [_ | _] ->
            {Others, Own} = lists:partition(fun(S) -> S < 0 end, Sequences),
            span(Others) + span(Own)
    end,
    case Batches =< todana_ra_server:in_flight_max() of
        true -> none;
        false -> io_lib:format("and ~b later batches are not", [Batches])
    end;
reason_against(everysec, #{lost := Lost}) ->
    Times = [Ms || #{time_ms := Ms} <- Lost],
    case Times =:= [] orelse lists:max(Times) - lists:min(Times) of
        true -> none;
        SpanMs when SpanMs =< ?UNSYNCED_MS_MAX -> none;
        SpanMs -> io_lib:format("and later ones of ~b ms are not", [SpanMs])
    end.

-spec span([integer()]) -> non_neg_integer().
span([]) -> 0;
span([First | _] = Sequences) -> lists:last(Sequences) - First + 1.
