# Completion of penstock for fish. `penstock completion fish` prints this.
function __penstock_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l rows (command $words[1] completion --words $words[2..-1] 2>/dev/null)
    if test "$rows[1]" = ":files"
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $rows
    end
end
complete -c penstock -f -a '(__penstock_complete)'
